// The rings between one process and others on its node, in both directions: processes of its job,
// actors with a name, and callers of such an actor. Owns the process's doorbell.
// Thread: owner, under the owner's lock.
// Not: waiting at the doorbell, which is the owner's task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"
#include "client/core/client_commands.h"
#include "protocol/codec/encoder.h"
#include "protocol/messages/agent_to_process.h"
#include "transport/ring/doorbell.h"
#include "transport/ring/ring.h"

namespace mobula::internal::client {

class RingLinks {
 public:
  // Bytes of frames that wait for space in one ring. Further frames are dropped, and resent by
  // sessions.
  static constexpr std::size_t max_waiting_bytes = 64u << 20;

  struct Hearer {
    std::function<void(ProcessId executor, std::span<const std::byte>)> on_executor_message;
    // Reads the ring until it is empty. Returns false if the ring is corrupted.
    std::function<bool(ProcessId caller, RingReader&)> read_calls;
  };

  // Installs the process's doorbell, and replaces one of an earlier agent. Without a doorbell no
  // rings exist.
  Result<void> use_doorbell(std::vector<Fd> fds);
  // Shared with threads that block there while it is replaced.
  const std::shared_ptr<Doorbell>& doorbell() const { return doorbell_; }

  // Opens this end of a new pair, and closes an older pair to the same process in the same
  // direction. On an error the caller must return the pair with RingClosed.
  Result<void> open(const OpenRingReply& opened, std::vector<Fd> fds);
  bool any() const { return !by_index_.empty(); }
  bool calls_any() const { return !out_.empty(); }
  bool calls(ProcessId executor) const { return out_.contains(executor); }

  // Sends the calls among the commands of one step to executors that have a ring, up to the first
  // stream that the step closes. A command that was sent loses its executor. The others stay.
  void send(std::vector<Command>& commands);

  // Delivers records of the rings that were rung, oldest first within each ring. Returns the pairs
  // that a peer has corrupted, which are closed.
  std::vector<OpenRingReply> collect(const Hearer& hearer);
  // The same for all rings, rung or not.
  std::vector<OpenRingReply> collect_all(const Hearer& hearer);

  // Send one frame to an executor or to a caller. False: no ring exists, or its reader has
  // corrupted it. A peer in a coalesced wake-up is not woken before flush_deferred_wakes().
  bool call(ProcessId executor, std::span<const std::byte> frame);
  bool reply(ProcessId caller, std::span<const std::byte> frame);

  // Called before a wait for replies.
  void flush_deferred_wakes();

  // Executors whose ring carried nothing in either direction since the previous call.
  std::vector<ProcessId> take_unused();

  // Removes a pair with its unread records. Empty if the pair is unknown.
  std::optional<OpenRingReply> close(std::uint64_t ring);
  std::optional<OpenRingReply> close_calls_to(ProcessId executor);
  void close_all();

 private:
  // A pair of rings, one per direction.
  struct Link {
    OpenRingReply opened;
    SharedMemory memory;
    RingWriter writer;
    RingReader reader;
    DoorbellRinger peer;
    std::deque<std::vector<std::byte>> waiting;  // frames that wait for space
    std::size_t waiting_bytes = 0;
    std::size_t first_written = 0;  // written bytes of the first waiting frame
    bool used = true;               // since the last take_unused()
    bool peer_naps = false;         // a frame was written, and the peer was not woken
  };
  using LinkByProcess = std::map<ProcessId, std::shared_ptr<Link>>;

  void ring_deferred(const std::shared_ptr<Link>& link);
  bool send(const LinkByProcess& links, ProcessId peer, std::span<const std::byte> frame);
  bool write(const std::shared_ptr<Link>& link, std::span<const std::byte> frame);
  static void send_waiting(Link& link);
  // False if the pair is corrupted.
  bool read(Link& link, const Hearer& hearer);
  bool read_replies(Link& link, const Hearer& hearer);
  void forget(const Link& link);

  std::shared_ptr<Doorbell> doorbell_;
  LinkByProcess out_;  // by executor
  LinkByProcess in_;   // by caller
  // Shared with a running read, whose hearer may close the pair.
  std::map<std::uint32_t, std::shared_ptr<Link>> by_index_;
  std::vector<std::shared_ptr<Link>> coalescing_;
  std::vector<std::byte> record_;
  Encoder encode_frame_;  // member only to reuse its memory
};

}  // namespace mobula::internal::client
