// What stands around a ProcessEngine in a test: an agent at the other end of its link, with a store of
// one slab per object, and executors that give every call's first argument back. Both live on a
// loop thread of their own. One engine each.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "protocol/messages.h"
#include "session/session.h"
#include "transport/bus.h"
#include "transport/local_link.h"
#include "transport/loop_thread.h"

namespace mobula::internal::client {

class FakeAgent {
 public:
  // Slabs of different incarnations have different numbers.
  explicit FakeAgent(std::uint64_t incarnation = 1);
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

 private:
  struct Stored {
    std::uint64_t slab = 0;
    std::int64_t size_bytes = 0;
    Fd file;
    bool sealed = false;
    std::vector<RefRecord> contained;
  };

  void heard(const ProcessToAgent& message);
  void fetched(ObjectId object);
  Endpoint next_executor();
  void send(AgentToProcess message, std::vector<Fd> fds = {});
  void called(PeerHandle from, std::span<const std::byte> bytes);

  std::unique_ptr<LoopThread> thread_;
  Fd engine_end_;
  std::string public_key_;
  std::string bus_folder_;

  // The loop thread's.
  std::unique_ptr<LocalLink> link_;
  std::unique_ptr<AllowTable> allow_;
  std::unique_ptr<Bus> bus_;
  std::map<PeerHandle, Session<ExecutorMessage, CallerMessage>> sessions_;
  std::uint64_t slots_ = 0;
  std::uint64_t executors_ = 0;
  std::map<ObjectId, Stored> store_;
  std::uint64_t slabs_;

  mutable std::mutex mutex_;  // guards calls_
  std::uint64_t calls_ = 0;
};

}  // namespace mobula::internal::client
