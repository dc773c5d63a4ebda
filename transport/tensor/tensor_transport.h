// One path for the bytes of a transfer from the holder to the receiver. Both sides agreed before on
// an id, the regions and their sizes, and the path. A transport moves the bytes or fails with a
// typed error, and can be stopped.
// Thread: the event loop. No call blocks. Each callback runs exactly once, from the loop, never
// within the call. It may make further calls, and may destroy the transport.
// Errors: no exception leaves a transport. Input from a peer is always checked, and all resources
// are bounded.
// Not: decisions (transfers, paths, retries, holds), which belong to the pull protocol.
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
#include "transport/tensor/chunk_stage.h"
#include "transport/tensor/region.h"

namespace mobula::internal {

using TransferId = Id<struct TransferTag>;
using Blob = std::vector<std::byte>;

// Reach of a transport.
enum class TransportScope : std::uint8_t { process = 1, gpu = 2, machine = 3, network = 4 };

struct TransportCaps {
  TransportScope scope = TransportScope::process;
  // Bit 1 << kind for each MemoryKind.
  std::uint8_t source_kinds = 0;
  std::uint8_t target_kinds = 0;
  bool one_sided = true;               // after the offer, the holder takes no part in a transfer
  bool needs_holder_progress = false;  // the loop of the holder must run while bytes move
  bool maps = false;                   // map() gives bytes in place
  bool stages = false;                 // accepts regions of a device with a ChunkStage
};

// A model for the choice of a path, not a guarantee.
struct PathCost {
  Duration latency{0};
  double bytes_per_second = 0;
};

// Whether a transport can work in this process, found by a test.
struct Availability {
  bool available = false;
  std::string reason;  // reason of a failure, or details of the mode of operation
};

// A peer, as described by its process record.
struct Peer {
  ProcessId process;                    // one incarnation
  std::span<const std::byte> endpoint;  // endpoint() of this transport in the peer
  bool trusted_fabric = false;          // the network in between is trusted: no encryption needed
  bool shares_gpu = false;              // NCCL: the peer accepts another rank on its GPU
};

// A path to one incarnation of a peer. A failure ends the channel. The next one has a higher epoch,
// and both sides reject operations of a lower one. GPU transports add a pair of devices.
struct ChannelKey {
  ProcessId peer;
  std::uint64_t epoch = 0;
  friend auto operator<=>(const ChannelKey&, const ChannelKey&) = default;
};

// The source of one transfer. The regions stay unchanged until release() has called back.
struct Offer {
  TransferId transfer;
  ChannelKey to;
  std::vector<SourceRegion> regions;
  Peer peer;  // its endpoint is only valid during the call
  // The receiver reported that it cannot read the memory in place: offer a copy.
  bool copy = false;
  // For device regions, if the transport `stages`: copies their chunks to the host.
  std::shared_ptr<ChunkStage> stage = nullptr;  // shared with chunks in transit
};

struct Pull {
  TransferId transfer;
  ChannelKey from;
  std::span<const std::byte> ticket;  // only valid during the call
  // As many as were offered, with equal sizes. They stay valid until the pull has ended. Their
  // content is undefined unless it succeeds.
  std::vector<TargetRegion> targets;
  // Silence of the holder after which the pull fails with timed_out.
  Duration silence_timeout = 10s;
  // For device targets, shared as in Offer.
  std::shared_ptr<ChunkStage> stage = nullptr;
};

struct TransferEnd {
  Result<void> result;
  bool peer_lost = false;  // the failure is the loss of the holder
  bool encrypted = false;  // in transit
  std::uint64_t bytes = 0;
  Duration queued{0};  // until the first byte moved
  Duration moving{0};
};

// A whole file of a holder, valid while a reader uses it.
struct MappedFile {
  std::weak_ptr<const void> mapping;  // owned by the transport, which unmaps files without readers
  std::span<const std::byte> bytes;
};

// Bytes of a holder in place, read-only, valid while this object exists.
class MappedRegions {
 public:
  virtual ~MappedRegions() = default;
  // Returns the file of the only region; empty if there are several regions or no file.
  virtual MappedFile file() const { return {}; }
  virtual std::span<const std::span<const std::byte>> regions() const = 0;
  // Returns false after the holder has released the offer: the bytes may have changed.
  virtual bool offered() const = 0;
};

struct TransportStats {
  std::uint64_t offers = 0;    // current
  std::uint64_t pulls = 0;     // current
  std::uint64_t channels = 0;  // current
  std::uint64_t offered = 0;   // total
  std::uint64_t pulled = 0;    // total of successes
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t pulled_bytes = 0;
  std::uint64_t opened = 0;
  std::uint64_t open_ns = 0;       // total setup time
  std::uint64_t mapped_bytes = 0;  // mappings of peers, current
};

// The holder *offers* its regions for one transfer and gets an offer handle. The handle travels
// over an authenticated channel. The receiver *opens* a channel to the holder and *pulls* (or
// *maps*) with the handle. The holder *releases* the offer when the receiver has finished or died.
// A two-sided transport is started by both sides: pull() at the receiver, serve() at the holder.
// Progress needs no user code: a process gives its transports a LoopThread.
//
// A transfer is *quiet* when the transport does not access its regions any more; a `Quiet` callback
// reports it.
class TensorTransport {
 public:
  using Opened = std::function<void(Result<void>)>;
  using Offered = std::function<void(Result<Blob>)>;
  using Ended = std::function<void(TransferEnd)>;
  using Mapped = std::function<void(Result<std::shared_ptr<const MappedRegions>>)>;
  using Quiet = std::function<void()>;

  // Ends all operations without a callback, and does not access regions afterwards. Waits for the
  // current slice of a copy.
  virtual ~TensorTransport() = default;

  virtual std::string_view name() const = 0;
  virtual const TransportCaps& caps() const = 0;
  // For the process record; constant during the life of the transport.
  virtual const Blob& endpoint() const = 0;
  // Returns the cost of a transfer between the peer and this process, or the reason why none is
  // possible. Pure: no I/O.
  virtual Result<PathCost> reach(const Peer& peer, const MemoryLocation& source,
                                 const MemoryLocation& target) const = 0;

  // Creates the channel, or succeeds if it exists. A failure leaves no state. Both sides may open
  // at the same time. Errors: already_exists if a channel with a higher epoch exists.
  virtual void open(const ChannelKey& key, const Peer& peer, Time deadline, Opened opened) = 0;
  // Ends the channel; its pulls fail with cancelled. Other channels are not affected.
  virtual void close(const ChannelKey& key) = 0;

  // Holder: creates an offer handle. A failure leaves no state. Errors: invalid_argument,
  // already_exists for a transfer that is already offered, resource_exhausted.
  virtual void offer(Offer offer, Offered offered) = 0;
  // Holder: ends the offer, also during its creation. Calls `quiet` when this process neither reads
  // nor sends its regions, within a bounded time. Late one-sided readers detect the release. An
  // unknown offer is quiet at once.
  virtual void release(TransferId transfer, Quiet quiet) = 0;
  // Holder, two-sided: the receiver is ready, start. One-sided transports do nothing.
  virtual void serve(const ChannelKey& channel, TransferId transfer);

  // Receiver. On success, every target has the bytes of the holder. Errors: invalid_argument (sizes
  // or memory do not match; nothing was written), corrupt (invalid handle), permission_denied
  // (token or epoch rejected), not_found (no such channel, or the offer was released), unavailable,
  // timed_out, resource_exhausted.
  virtual void pull(Pull pull, Ended ended) = 0;
  // Receiver. Errors: invalid_argument if the bytes cannot be used in place.
  virtual void map(TransferId transfer, const ChannelKey& from, std::span<const std::byte> ticket,
                   Mapped mapped) = 0;
  // Receiver: ends a pull or map. Its own callback then gets cancelled, or its actual result. Calls
  // `quiet` when no target is written any more: at once, or after the current slice. An unknown
  // transfer is quiet at once.
  virtual void cancel(TransferId transfer, Quiet quiet) = 0;

  // The process of the peer has ended: its pulls fail, its offers end. Calls `quiet` when they are
  // quiet, within a bounded time. Other peers are not affected.
  virtual void peer_down(ProcessId peer, Quiet quiet) = 0;
  // Ends all operations, as peer_down for all peers. Calls `done` at the deadline at the latest,
  // with the transfers that are not quiet by then.
  virtual void shutdown(Time deadline, std::function<void(std::vector<TransferId>)> done) = 0;

  virtual TransportStats stats() const = 0;
};

}  // namespace mobula::internal
