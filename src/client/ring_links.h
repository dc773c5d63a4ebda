// The rings of one process to others of its job on its node: where it calls, and where it is called.
// Knows bytes of frames, not what they say. Its own doorbell stands beside: who waits there is the
// owner's business. Guarded by its owner's lock, all of it.
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
#include "protocol/agent_to_process.h"
#include "transport/doorbell.h"
#include "transport/ring.h"

namespace mobula::internal::client {

class RingLinks {
 public:
  // Frames of one direction that wait for room in a ring; more are dropped, and repeated by sessions.
  static constexpr std::size_t max_waiting_bytes = 64u << 20;

  struct Hearer {
    std::function<void(ProcessId executor, std::span<const std::byte>)> executor_said;
    std::function<void(ProcessId caller, std::span<const std::byte>)> caller_said;
  };

  // Takes the process's doorbell, in the place of one that an earlier agent gave. Without one there are
  // no rings.
  Result<void> use_doorbell(std::vector<Fd> fds);
  // Shared with whoever sleeps there while it is replaced.
  const std::shared_ptr<Doorbell>& doorbell() const { return doorbell_; }

  // Takes the end of a new pair; the one to the same process and for the same direction goes. What is
  // refused has to be given back as RingClosed by the caller.
  Result<void> open(const RingOpened& opened, std::vector<Fd> fds);
  bool any() const { return !by_index_.empty(); }
  bool calls_any() const { return !out_.empty(); }
  bool calls(ProcessId executor) const { return out_.contains(executor); }
  bool is_called_by(ProcessId caller) const { return in_.contains(caller); }

  // Hands on what lies in rings that were rung, oldest first within each. Returns the pairs that a
  // peer has broken: they are closed.
  std::vector<RingOpened> collect(const Hearer& hearer);
  // The same of all rings, rung or not.
  std::vector<RingOpened> collect_all(const Hearer& hearer);

  // Sends to an executor that this process calls, or to a caller; false without a ring, or with one that
  // the reader has broken.
  // One that naps is not woken before wake_nappers().
  bool call(ProcessId executor, std::span<const std::byte> frame);
  bool reply(ProcessId caller, std::span<const std::byte> frame);

  // By who is going to wait for what they do with what they were sent.
  void wake_nappers();

  // Executors whose ring has carried nothing, there or back, since this was asked before.
  std::vector<ProcessId> take_unused();

  // Forgets a pair; what was not read is lost. Empty if there is none.
  std::optional<RingOpened> close(std::uint64_t ring);
  std::optional<RingOpened> close_calls_to(ProcessId executor);
  void close_all();

 private:
  // One pair: both directions of it.
  struct Link {
    RingOpened opened;
    SharedMemory memory;
    RingWriter writer;
    RingReader reader;
    DoorbellRinger peer;
    std::deque<std::vector<std::byte>> waiting;  // for room
    std::size_t waiting_bytes = 0;
    std::size_t first_written = 0;  // of the first of them
    bool used = true;               // lately
    bool peer_naps = false;         // was sent something, and not woken
  };
  using LinkByProcess = std::map<ProcessId, std::shared_ptr<Link>>;

  void ring_softly(const std::shared_ptr<Link>& link);
  bool send(const LinkByProcess& links, ProcessId peer, std::span<const std::byte> frame);
  static void send_waiting(Link& link);
  // Whether the pair still makes sense.
  bool read(Link& link, const Hearer& hearer);
  void forget(const Link& link);

  std::shared_ptr<Doorbell> doorbell_;
  LinkByProcess out_;  // by executor
  LinkByProcess in_;   // by caller
  // Shared with a read in progress, whose hearer may close it.
  std::map<std::uint32_t, std::shared_ptr<Link>> by_index_;
  std::vector<std::shared_ptr<Link>> napping_;
  std::vector<std::byte> record_;
};

}  // namespace mobula::internal::client
