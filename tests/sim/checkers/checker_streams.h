// Invariants of streaming calls. Each consumer gets every item exactly once, in order, without a
// gap, and then the end. A repeated run gives no item that its caller has. No executor is further
// ahead of the fastest consumer than its window. Shares no code with the tables of the cores.
// Thread: the simulator's only thread. Errors: World::violation, checker "streams".
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "client/executor/core/executor_core.h"
#include "sim/workload/plan.h"

namespace mobula::internal::sim {

class Process;
class World;
struct Reading;

class StreamChecker {
 public:
  explicit StreamChecker(World& world) : world_(world) {}

  void submitted(TaskId task, const Plan& plan);
  // The caller sends the call: it has the items that it received and did not lose.
  void sent(const Process& caller, const PushCall& push);
  // User code in an executor gives an item.
  void given(const Process& executor, const executor::RunCall& run, std::uint64_t index);
  // The caller's core has taken the message.
  void received(const Process& caller, const ItemYielded& message);
  // Other processes may read the object: its stream has no window from now on.
  void exported(ObjectId object);
  // A consumer is about to take an item.
  void taken(const Process& consumer, ObjectId position);
  // A consumer has read a position.
  void read(Process& consumer, ObjectId position, const Reading& reading);

 private:
  struct Stream {
    std::uint64_t items = 0;
    std::uint32_t window = 0;
    bool throws = false;
  };
  // The state of a stream at one caller.
  struct Received {
    std::set<std::uint64_t> items;
    std::map<std::uint32_t, std::set<std::uint64_t>> known;  // by attempt, when it was sent
  };

  World& world_;
  std::map<TaskId, Stream> streams_;
  std::map<std::pair<ProcessId, TaskId>, Received> received_;
  std::map<ObjectId, std::pair<TaskId, std::uint64_t>> positions_;
  std::map<std::pair<ProcessId, TaskId>, std::uint64_t> taken_;  // by the fastest consumer
  std::set<TaskId> exported_;
};

}  // namespace mobula::internal::sim
