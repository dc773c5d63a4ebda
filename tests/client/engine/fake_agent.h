// What stands around a ProcessEngine in a test: an agent at the other end of its link, with a store of
// one slab per object, and executors that give every call's first argument back, called by socket or
// by ring. Both live on a loop thread of their own. One engine each.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "client/ring_links.h"
#include "protocol/messages.h"
#include "session/session.h"
#include "transport/bus.h"
#include "transport/local_link.h"
#include "transport/loop_thread.h"

namespace mobula::internal::client {

// How executors are called. `by_ring_unasked`: the agent opens rings before anybody asks.
// `by_socket_with_bell`: the engine has a doorbell, as of a node whose executors are elsewhere; without
// one no thread of the user's reads sockets.
enum class Way { by_socket, by_ring, by_ring_unasked, by_socket_with_bell };

class FakeAgent {
 public:
  // Slabs of different incarnations have different numbers.
  // `spin_page`: the file that processes get with their doorbell, if any.
  explicit FakeAgent(std::uint64_t incarnation = 1, Way way = Way::by_socket, Fd spin_page = {});
  ~FakeAgent();

  // The engine's end of the link; once.
  Fd take_link() { return std::move(engine_end_); }
  // Says something to the engine, in order; any thread but the agent's own.
  void say(AgentToProcess message);
  // Closes the link, as an agent does that dies.
  void die();
  // Of one more executor; not from the agent's thread.
  Endpoint executor();
  // Calls that came to the executor.
  std::uint64_t calls() const;
  // What came to it by ring, and by socket.
  std::uint64_t frames_by_ring() const;
  std::uint64_t frames_by_socket() const;
  // The next executor that is called by ring writes nonsense there, and nothing else any more.
  void break_next_ring();
  // From here on executors refuse rings that are opened for them, as if they could not map them.
  void refuse_rings();
  // Its executors nap from here on, until they are woken; then they look once, and sleep as before.
  void nap();
  bool naps() const;
  void look();
  // How the engine sleeps at its doorbell, which ring_engine() rings without anything to read.
  DoorbellSleep engine_sleep() const;
  void ring_engine();
  // How often the engine asked for a ring.
  std::uint64_t rings_asked_for() const;
  // How often it gave one back.
  std::uint64_t rings_closed() const;
  // Slots that it gave to the engine, each of an executor of its own.
  std::uint64_t slots() const;

 private:
  struct Stored {
    std::uint64_t slab = 0;
    std::int64_t size_bytes = 0;
    Fd file;
    bool sealed = false;
    RefRecords contained;
  };

  void heard(const ProcessToAgent& message);
  void fetched(const FetchObject& fetch);
  Endpoint next_executor();
  void send(AgentToProcess message, std::vector<Fd> fds = {});
  using Reply = std::function<void(std::span<const std::byte>)>;
  void called(std::uint64_t caller, std::span<const std::byte> bytes, const Reply& reply);
  void called_by_ring(ProcessId executor, std::span<const std::byte> bytes);
  void use_rings();
  void open_ring(ProcessId executor);
  void look_at_rings();

  std::unique_ptr<LoopThread> thread_;
  Fd engine_end_;
  std::string public_key_;
  std::string bus_folder_;

  // The loop thread's.
  std::unique_ptr<LocalLink> link_;
  std::unique_ptr<AllowTable> allow_;
  std::unique_ptr<Bus> bus_;
  std::map<std::uint64_t, Session<ExecutorMessage, CallerMessage>> sessions_;
  std::set<PeerHandle> greeted_;
  DoorbellFiles engine_bell_;
  DoorbellFiles own_bell_;
  Fd spin_page_;
  RingLinks rings_;  // callers go by the ids of the executors they call
  Watch bell_watch_;
  std::uint64_t opened_ = 0;
  std::map<ProcessId, std::pair<std::uint32_t, Fd>> ring_files_;  // with their places
  std::optional<ProcessId> broken_;
  bool break_next_ = false;
  bool refuse_ = false;
  std::uint64_t executors_ = 0;
  std::map<ObjectId, Stored> store_;
  std::uint64_t slabs_;

  const Way way_;

  mutable std::mutex mutex_;  // guards what follows
  std::uint64_t calls_ = 0;
  std::uint64_t frames_by_ring_ = 0;
  std::uint64_t frames_by_socket_ = 0;
  std::uint64_t rings_asked_for_ = 0;
  std::uint64_t rings_closed_ = 0;
  std::uint64_t slots_ = 0;
};

}  // namespace mobula::internal::client
