// One way for the bytes of a transfer to go from the process that holds them to the one that needs
// them. Both have agreed before: on an id, on regions and their sizes, on the way. A transport moves
// the bytes, or says with a typed failure why not, and can be stopped. It decides nothing: who pulls
// what from whom, by which way, when again and for how long a hold lasts is for the pull protocol.
//
// The holder *offers* its regions for one transfer, which makes a ticket; the ticket travels over an
// authenticated channel; the receiver *opens* a channel to the holder and *pulls* (or *maps*) by the
// ticket; the holder *releases* the offer when the receiver is done or dead. Two-sided transports
// are told by both sides when to begin: pull() there, serve() here.
//
// All calls are for the thread of the transport's loop, and none blocks. Each call that takes a
// function is answered exactly once, from the loop, never from within the call; what is answered may
// make further calls, and destroy the transport. Progress needs no user code: a process gives its
// transports a LoopThread. No exception leaves a transport. What comes from a peer (endpoints,
// tickets, messages) is checked whatever it says, and everything is bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/direct/chunk_stage.h"
#include "transport/direct/region.h"

namespace mobula::internal {

using TransferId = Id<struct TransferTag>;
using Blob = std::vector<std::byte>;

// How far a transport reaches.
enum class TransportScope : std::uint8_t { process = 1, gpu = 2, machine = 3, network = 4 };

struct TransportCaps {
  TransportScope scope = TransportScope::process;
  // By MemoryKind: bit 1 << kind.
  std::uint8_t source_kinds = 0;
  std::uint8_t target_kinds = 0;
  bool one_sided = true;              // the holder does nothing for a transfer once it is offered
  bool needs_holder_progress = false; // its loop has to turn while bytes move
  bool maps = false;                  // map() gives bytes in place
  bool stages = false;                // takes regions of a device with a ChunkStage for them
  bool cancels_midway = true;
  std::uint64_t max_inflight_bytes = 0;  // of pulls that move at once; 0: as many as pulls allow
};

// A model for choosing, not a promise.
struct PathCost {
  Duration latency{0};
  double bytes_per_second = 0;
};

// Whether a transport can work in this process at all, found out by trying.
struct Availability {
  bool available = false;
  std::string reason;  // why not, or what is known of how it will work
};

// A peer as its process record tells of it.
struct Peer {
  ProcessId process;            // one incarnation
  std::span<const std::byte> endpoint;  // what this transport's endpoint() said there
  bool trusted_fabric = false;  // nobody listens between here and there: bytes may go plain
};

// A way to one incarnation of a peer. A failure ends the channel; the next one has a higher epoch,
// and what belongs to a lower one is refused on both sides. GPU transports add a pair of devices.
struct ChannelKey {
  ProcessId peer;
  std::uint64_t epoch = 0;
  friend auto operator<=>(const ChannelKey&, const ChannelKey&) = default;
};

// What a holder gives for one transfer. The regions stay as they are until release() is answered.
struct Offer {
  TransferId transfer;
  ChannelKey to;
  std::vector<SourceRegion> regions;
  Peer peer;  // its endpoint is read within the call
  // The receiver has said that it cannot read where the bytes lie: offer a copy.
  bool copy = false;
  // For regions of a device, where the transport `stages`: what brings their chunks to the host.
  std::shared_ptr<ChunkStage> stage = nullptr;  // shared with chunks on their way
};

struct Pull {
  TransferId transfer;
  ChannelKey from;
  std::span<const std::byte> ticket;  // read within the call
  // As many as were offered, each of the same size; they stay until the pull is answered. Until it
  // has succeeded what lies in them may be anything.
  std::vector<TargetRegion> targets;
  // Without a byte or a word for so long the pull fails with timed_out.
  Duration silence_limit = 10s;
  // For targets of a device, as in Offer.
  std::shared_ptr<ChunkStage> stage = nullptr;
};

struct TransferEnd {
  Result<void> result;
  bool peer_lost = false;  // the failure is that the holder is gone
  bool encrypted = false;  // on their way
  std::uint64_t bytes = 0;
  Duration queued{0};  // until the first byte moved
  Duration moving{0};
};

// All of a holder's file, for as long as anything reads there.
struct MappedFile {
  std::weak_ptr<const void> mapping;  // with the transport, which gives up what nobody reads
  std::span<const std::byte> bytes;
};

// Bytes of a holder in place, read-only, as long as this lives.
class MappedRegions {
 public:
  virtual ~MappedRegions() = default;
  // What the only region lies in; nothing where there are others, or no file.
  virtual MappedFile file() const { return {}; }
  virtual std::span<const std::span<const std::byte>> regions() const = 0;
  // False once the holder has released the offer: the bytes may be others by now.
  virtual bool offered() const = 0;
};

struct TransportStats {
  std::uint64_t offers = 0;  // now
  std::uint64_t pulls = 0;   // now
  std::uint64_t channels = 0;  // now
  std::uint64_t offered = 0;   // ever
  std::uint64_t pulled = 0;    // that succeeded
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t pulled_bytes = 0;
  std::uint64_t opened = 0;
  std::uint64_t open_ns = 0;  // that they took together
  std::uint64_t mapped_bytes = 0;  // of peers, now
};

// Whether the same transfer may succeed when it is tried again, on a channel of the next epoch.
bool may_succeed_again(const Failure& why);

class TensorTransport {
 public:
  using Opened = std::function<void(Result<void>)>;
  using Offered = std::function<void(Result<Blob>)>;
  using Ended = std::function<void(TransferEnd)>;
  using Mapped = std::function<void(Result<std::shared_ptr<const MappedRegions>>)>;
  using Quiet = std::function<void()>;

  // Ends everything without an answer, and touches no region from then on; waits for the slice of a
  // copy in progress.
  virtual ~TensorTransport() = default;

  virtual std::string_view name() const = 0;
  virtual const TransportCaps& caps() const = 0;
  // For the process record; the same as long as this lives.
  virtual const Blob& endpoint() const = 0;
  // What bytes would cost between the peer and here, or why they cannot go. Pure: no I/O.
  virtual Result<PathCost> reach(const Peer& peer, const MemoryPlace& source,
                                 const MemoryPlace& target) const = 0;

  // Makes the channel, or says that it is there. Failures leave nothing behind. Both sides may open
  // at once. already_exists where a channel of a higher epoch is.
  virtual void open(const ChannelKey& key, const Peer& peer, Time deadline, Opened opened) = 0;
  // Ends the channel; its pulls fail with cancelled. Other channels are untouched.
  virtual void close(const ChannelKey& key) = 0;

  // Holder. Answers with the ticket, or why there is none, which leaves nothing behind:
  // invalid_argument, already_exists for a transfer that is offered, resource_exhausted.
  virtual void offer(Offer offer, Offered offered) = 0;
  // Holder. Ends the offer, also while it is being made; answered when no byte of its regions is
  // read any more by this process, nor sent: bounded in time. One-sided readers that come late find
  // out that they did. An offer that is not there is quiet.
  virtual void release(TransferId transfer, Quiet quiet) = 0;
  // Holder, two-sided: the receiver is ready, begin. One-sided transports do nothing.
  virtual void serve(const ChannelKey& channel, TransferId transfer);

  // Receiver. Success: every byte of every target is the holder's. Failures: invalid_argument
  // (sizes or memory that do not fit, before anything is written), corrupt (a ticket that breaks the
  // format), permission_denied (a token or an epoch that is refused), not_found (no such channel, or
  // an offer that is not there any more), unavailable, timed_out, resource_exhausted.
  virtual void pull(Pull pull, Ended ended) = 0;
  // Receiver. invalid_argument where bytes cannot be had in place.
  virtual void map(TransferId transfer, const ChannelKey& from, std::span<const std::byte> ticket,
                   Mapped mapped) = 0;
  // Receiver. Ends a pull or map, whose own answer is then cancelled, or what it had come to.
  // Answered when no byte of the targets is written any more: at once, or after the slice in
  // progress. What is not there is quiet.
  virtual void cancel(TransferId transfer, Quiet quiet) = 0;

  // The peer's process is gone for good: its pulls fail, its offers end. Answered when they are
  // quiet, within a bound; other peers are untouched.
  virtual void peer_down(ProcessId peer, Quiet quiet) = 0;
  // Ends everything, as peer_down for all. Answered at the deadline at the latest, with the
  // transfers that are not quiet then.
  virtual void shutdown(Time deadline, std::function<void(std::vector<TransferId>)> done) = 0;

  virtual TransportStats stats() const = 0;
};

}  // namespace mobula::internal
