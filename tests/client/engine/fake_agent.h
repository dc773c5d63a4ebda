// The environment of a ProcessEngine in a test: an agent with a store of one slab per object, and
// executors that return the first argument of every call, by socket or by ring. All share one loop
// thread and serve one engine.
// Thread: any, unless stated otherwise.
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
#include "client/engine/ring_links.h"
#include "protocol/codec/messages.h"
#include "protocol/session/session.h"
#include "transport/bus/bus.h"
#include "transport/local/local_link.h"
#include "transport/loop/loop_thread.h"

namespace mobula::internal::client {

// Path of calls to executors. `by_ring_unasked`: the agent opens rings without a request.
// `by_socket_with_bell`: the engine has a doorbell, as on a node whose executors are remote.
// Without a doorbell no user thread reads sockets.
enum class Way { by_socket, by_ring, by_ring_unasked, by_socket_with_bell };

class FakeAgent {
 public:
  // Slabs of different incarnations have different numbers. `spin_page`: the file that processes
  // get with their doorbell, if any.
  explicit FakeAgent(std::uint64_t incarnation = 1, Way way = Way::by_socket, Fd spin_page = {});
  ~FakeAgent();

  // The engine's end of the link. Must be called once.
  Fd take_link() { return std::move(engine_end_); }
  // Sends a message to the engine, in order. Not on the agent's thread.
  void say(AgentToProcess message);
  // Closes the link, like a dying agent.
  void die();
  // Endpoint of a new executor. Not on the agent's thread.
  Endpoint executor();
  // Count of calls received by the executor.
  std::uint64_t calls() const;
  // The latest of them.
  CallRecord last_call() const;
  // Counts of its frames by ring and by socket.
  std::uint64_t frames_by_ring() const;
  std::uint64_t frames_by_socket() const;
  // The next executor called by ring writes malformed data there, and no other data.
  void break_next_ring();
  // From now on executors reject rings that are opened for them, as if they could not map them.
  void refuse_rings();
  // Its executors use a coalesced wake-up from now on. Once woken, they read their rings once and
  // then block as before.
  void sleep_coalesced();
  bool sleeps_coalesced() const;
  void poll();
  // From now on it has no space: requests for memory wait until give_space().
  void refuse_space();
  void give_space();
  // Count of requests for memory that wait.
  std::size_t waiting_for_space() const;
  // The state of the engine at its doorbell. ring_engine() rings it without data.
  DoorbellSleep engine_sleep() const;
  void ring_engine();
  // Count of ring requests of the engine.
  std::uint64_t requested_rings() const;
  // Count of rings that the engine closed.
  std::uint64_t rings_closed() const;
  // Count of slots given to the engine, each with a separate executor.
  std::uint64_t slots() const;

 private:
  struct Stored {
    std::uint64_t slab = 0;
    std::int64_t size_bytes = 0;
    Fd file;
    bool sealed = false;
    RefRecords contained;
  };

  void on(const ProcessToAgent& message);
  void fetched(const FetchObjectRequest& fetch);
  Endpoint next_executor();
  void send(AgentToProcess message, std::vector<Fd> fds = {});
  using Reply = std::function<void(std::span<const std::byte>)>;
  void called(std::uint64_t caller, std::span<const std::byte> bytes, const Reply& reply);
  void called_by_ring(ProcessId executor, std::span<const std::byte> bytes);
  void use_rings();
  void open_ring(ProcessId executor);
  void poll_rings();

  std::unique_ptr<LoopThread> thread_;
  Fd engine_end_;
  std::string public_key_;
  std::string bus_dir_;

  // Used by the loop thread alone.
  std::unique_ptr<LocalLink> link_;
  std::unique_ptr<AllowTable> allow_;
  std::unique_ptr<Bus> bus_;
  std::map<std::uint64_t, Session<ExecutorMessage, CallerMessage>> sessions_;
  std::set<PeerHandle> greeted_;
  DoorbellFiles engine_bell_;
  DoorbellFiles own_bell_;
  Fd spin_page_;
  RingLinks rings_;  // a caller has the id of the executor that it calls
  Watch bell_watch_;
  std::uint64_t opened_ = 0;
  std::map<ProcessId, std::uint64_t> open_rings_;
  std::map<ProcessId, std::pair<std::uint32_t, Fd>> ring_files_;  // with their indices
  std::optional<ProcessId> broken_;
  bool break_next_ = false;
  bool refuse_ = false;
  std::uint64_t executors_ = 0;
  std::map<ObjectId, Stored> store_;
  std::uint64_t slabs_;

  const Way way_;

  mutable std::mutex mutex_;  // guards the following members
  std::uint64_t calls_ = 0;
  CallRecord last_call_;
  std::uint64_t frames_by_ring_ = 0;
  std::uint64_t frames_by_socket_ = 0;
  std::uint64_t requested_rings_ = 0;
  std::uint64_t rings_closed_ = 0;
  std::uint64_t slots_ = 0;
  bool refuses_space_ = false;
  std::vector<ReserveObjectRequest> waiting_for_space_;
};

}  // namespace mobula::internal::client
