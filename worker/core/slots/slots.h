// The slots that the head allocated on this node, and the executor generations that run in them one
// after another.
// Thread: owner (WorkerCore).
//   preparing ─► starting ─► assigned ─► ready ─► (process exited) ─► starting ... or erased
//                                                     └─► pausing ─┘
// A generation starts only after the exit of the previous process. An actor's slot has one
// generation, because the head decides about restarts. After `start_attempts` generations in a row
// that end before they are ready, the slot ends. Crashes in a row delay the next start.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/containers/deadline_heap.h"
#include "base/containers/table.h"
#include "worker/core/head_session.h"
#include "worker/core/processes.h"
#include "worker/core/programs.h"
#include "worker/core/slots/gpu_guard.h"
#include "worker/core/slots/memory_guard.h"

namespace mobula::internal::worker {

enum class SlotPhase : unsigned char { preparing, starting, assigned, ready, pausing };

struct SlotRow {
  StartSlot start{};
  SlotPhase phase = SlotPhase::preparing;
  std::uint32_t generation = 0;
  ProcessId process{};  // process of this generation
  std::int64_t pid = 0;
  Endpoint endpoint{};  // set when ready
  EndCause previous{};  // end of the previous generation
  bool lent = false;
  ResidentResults residence{};               // last report of the executor
  std::string running{};                     // human-readable name of the running call
  bool may_run_again = true;                 // the running call can be retried
  std::uint64_t order = 0;                   // start order within this agent
  std::optional<ValueRecord> constructed{};  // error of the actor's constructor, or empty

  int failed_starts = 0;  // failed starts in a row
  int crashes = 0;        // crashes in a row
  bool stopping = false;
  bool graceful = false;  // stopping: the running call finishes
  bool orderly = false;   // stopping, not graceful: the actor is destroyed and exit handlers run
  std::string stop_why{};
  std::optional<EndKind> retires{};     // planned end reported by the executor
  std::uint64_t submitted = 0;          // calls that its executor awaits before it exits as planned
  std::string awaited{};                // name of one awaited call
  bool departed = false;                // stopping: the resources are returned to the head
  std::optional<std::string> killed{};  // reason, if this agent killed it
  bool for_memory = false;              // killed: for memory of the node or of a GPU
  bool for_share = false;               // killed: it exceeded its share of a device
  std::optional<Time> store_by{};       // stopping: deadline for storing its results
  std::optional<Time> deadline{};       // starting, assigned: ready by; stopping: kill at; pausing
  std::optional<Time> armed{};          // see DeadlineHeap

  bool is_actor() const { return !start.actor.actor.empty(); }
  // The slot runs a job's command instead of an executor, and is ready when the command runs.
  bool is_entry() const { return start.actor.entry.given(); }
  bool has_process() const { return phase != SlotPhase::preparing && phase != SlotPhase::pausing; }
};

class Slots {
 public:
  // Callbacks to the core when a process begins and after it has exited.
  struct Hooks {
    std::function<void(ProcessId, const Principal&)> began;
    std::function<void(ProcessId, const EndCause&)> gone;
  };

  Slots(Outbox& outbox, const WorkerOptions& options, HeadSession& head, Processes& processes,
        Programs& programs, Hooks hooks);

  // ---- messages of the head ---------------------------------------------------------------------
  void start(StartSlot start);
  void stop(const StopSlot& stop);
  void job_ended(JobId job, const std::vector<SlotId>& kept);
  // Ends slots that the head does not know.
  void end_unknown(const std::vector<SlotId>& slots);
  // A session has begun: states again what the facts do not contain.
  void restate();

  // ---- events of programs and executors ---------------------------------------------------------
  void program_came(const Programs::Outcome& outcome);
  void started(const ExecutorStarted& started);
  void start_failed(const ExecutorStartFailed& failed);
  void exited(const ExecutorExited& exited);
  void link_lost(SlotId slot, std::uint32_t generation);
  void said_ready(SlotId slot, ExecutorReady ready);
  void said_blocked(SlotId slot, const ExecutorBlocked& message);
  void said_resides(SlotId slot, const ResidentResults& residence);
  void said_retires(SlotId slot, EndKind kind);
  void said_constructed(SlotId slot, ValueRecord error);
  void said_running(SlotId slot, std::string name, bool may_run_again);

  // ---- the agent --------------------------------------------------------------------------------
  // Rejects new slots.
  void close(const std::string& why);
  // Rejects new slots and ends all of them, by force at `kill_at`.
  void end_all(bool graceful, const std::string& why, Time kill_at);
  // Kills all executors at once.
  void kill_all(const std::string& why);
  // Terminates an executor if the node is short of memory. Notifies the head when memory pressure
  // begins and ends.
  void sampled(const MemorySampled& sample, std::int64_t store_bytes);
  // Reacts to executors that exceed their share of a device.
  void sampled(const GpuMemorySampled& sample);
  void fence_exclusive(const std::string& why);
  bool has_exclusive() const;
  void tick();
  std::optional<Time> next_deadline() const { return deadlines_.earliest(); }
  // As in Peers.
  std::size_t settle();
  bool deadlines_are_exact() const;

  const SlotRow* find(SlotId slot) const { return rows_.find(slot); }
  std::vector<SlotFact> facts() const;
  const std::deque<EntryEnded>& ended_entries() const { return ended_entries_; }
  std::uint64_t digest() const;
  std::vector<std::string> running() const;
  bool empty() const { return rows_.empty(); }
  std::size_t size() const { return rows_.size(); }
  std::set<JobId> jobs() const;

 private:
  SlotRow* current(SlotId slot, std::uint32_t generation);
  // After each change of `deadline` to a time.
  void watch(SlotRow& row) { deadlines_.watch(row.start.slot, row.deadline, row.armed); }
  SlotRow* with_process(SlotId slot);
  void begin_generation(SlotId slot, SlotRow& row);
  void entry_started(SlotId slot, SlotRow& row);
  void entry_over(SlotId slot, const SlotRow& row, const EndCause& cause);
  void end_entry(SlotRow& row, Duration grace);
  void generation_over(SlotId slot, EndCause cause);
  void next_generation(SlotId slot, SlotRow& row, bool was_ready, const EndCause& cause);
  EndCause explained(const SlotRow& row, EndCause raw) const;
  static std::string exit_failure(const SlotRow& row, const EndCause& status);
  EndCause explained_end(const SlotRow& row, EndCause cause) const;
  void end(SlotId slot, bool graceful, const std::string& why, bool stores = false,
           bool orderly = false);
  void request_exit(SlotRow& row);
  void departs(SlotId slot, SlotRow& row, const ExecutorBlocked& message);
  void kill(SlotId slot, SlotRow& row, const std::string& why);
  void finish(SlotId slot, EndCause cause, bool cannot_start);
  void report_released_cpu(SlotId slot, SlotRow& row, bool on);
  void report_residence(SlotId slot, SlotRow& row, const ResidentResults& residence);
  std::vector<GpuHolder> gpu_holders() const;
  std::vector<MemoryCandidate> memory_candidates(const MemorySampled& sample) const;

  Outbox& outbox_;
  const WorkerOptions& options_;
  HeadSession& head_;
  Processes& processes_;
  Programs& programs_;
  Hooks hooks_;
  Table<SlotId, SlotRow> rows_;
  DeadlineHeap<SlotId> deadlines_;
  std::size_t exclusive_ = 0;  // slots of exclusive actors
  std::uint64_t processes_made_ = 0;
  MemoryGuard memory_;
  GpuGuard gpus_;
  std::deque<EntryEnded> ended_entries_;  // recent ends of jobs' commands, for the next head
  MemoryPressure pressure_;               // last state sent to the head
  bool closed_ = false;                   // new slots are rejected
  std::optional<Time> kill_at_;           // closed: kill time of all executors
  std::string closed_why_;
};

}  // namespace mobula::internal::worker
