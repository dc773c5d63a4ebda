// Invariants of streaming calls. Each consumer gets every item exactly once, in order, without a
// gap, and then the end. A repeated run gives no item that its caller has. No executor is further
// ahead of the slowest living reader than its window: of the fastest consumer of the caller, or of
// the slowest process that reads the stream, once the caller could learn of it. Shares no code with
// the tables of the cores.
// Thread: the simulator's only thread. Errors: World::violation, checker "streams".
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "client/executor/core/executor_core.h"
#include "protocol/messages/agent_to_process.h"
#include "protocol/messages/head_to_agent.h"
#include "protocol/messages/peer_control.h"
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
  // Other processes may read the object.
  void exported(ObjectId object);
  // A consumer is about to take an item.
  void taken(const Process& consumer, ObjectId position);
  // A process reports how far it has read, and its agent receives this.
  void reader_reports(const Process& reader, const ReaderMoved& message);
  void report_reaches(ProcessId agent, ProcessId reader, const ReaderMoved& message);
  // An agent reports the readers that it knows, to the agent of the home or to the owner.
  void readers_sent(ProcessId agent, ObjectId stream, std::uint64_t taken);
  void readers_reach(ProcessId from, ProcessId home, const NodeReaderMoved& message);
  void readers_reach_owner(ProcessId from, const ReadersMoved& message);
  // The process died, or its agent did, which knew the reads of the process.
  void reader_ended(const Process& reader);
  // An agent receives the deaths that the head declared. Processes of a paused node still run, and
  // no longer count as readers.
  void deaths_reach(ProcessId agent, const PeersChanged& message);
  // The caller exits as planned: its streams have no window from now on.
  void caller_exits(const Process& caller);
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

  // A process that reads a stream, from its first report until it reports its end.
  struct Reader {
    ProcessId process;
    std::uint64_t period = 0;  // number of ends before
    auto operator<=>(const Reader&) const = default;
  };
  using Readers = std::set<Reader>;
  struct ReadersSent {
    std::uint64_t taken = 0;
    Readers readers;
  };
  struct Progress {
    std::uint64_t taken = 0;  // since the last end
    bool reports = false;
  };

  Readers pop_sent(ProcessId agent, ObjectId stream, std::uint64_t taken);
  void raise_limit(TaskId task);

  World& world_;
  std::map<TaskId, Stream> streams_;
  std::map<std::pair<ProcessId, TaskId>, Received> received_;
  std::map<ObjectId, std::pair<TaskId, std::uint64_t>> positions_;
  std::map<std::pair<ProcessId, TaskId>, std::uint64_t> taken_;  // by the fastest consumer
  std::set<TaskId> exported_;
  // Exported streams.
  std::set<ProcessId> leaving_;
  std::map<std::pair<ProcessId, TaskId>, Progress> progress_;
  std::map<std::pair<ProcessId, ObjectId>, std::uint64_t> ends_sent_, ends_reached_;
  std::map<std::pair<ProcessId, ObjectId>, Readers> known_;  // by agent and stream
  std::map<std::pair<ProcessId, ObjectId>, std::deque<ReadersSent>> sent_;
  std::map<TaskId, Readers> joined_;  // the caller can know them
  std::map<TaskId, std::uint64_t> limits_;
};

}  // namespace mobula::internal::sim
