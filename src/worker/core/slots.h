// The slots the head has booked on this node, and the executor generations that run in them, one
// after the other. Part of WorkerCore.
//
//   preparing ─► starting ─► assigned ─► ready ─► (process gone) ─► starting ... or gone
//                                                     └─► pausing ─┘
//
// A generation follows only when the previous process is gone. An actor's slot has one generation:
// whether the actor lives on is the head's decision. Three generations in a row that die before
// they are ready end a slot; crashes in a row delay the next start.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline_heap.h"
#include "base/table.h"
#include "worker/core/gpu_guard.h"
#include "worker/core/head_session.h"
#include "worker/core/memory_guard.h"
#include "worker/core/processes.h"
#include "worker/core/programs.h"

namespace mobula::internal::worker {

enum class SlotPhase : unsigned char { preparing, starting, assigned, ready, pausing };

struct SlotRow {
  StartSlot start{};
  SlotPhase phase = SlotPhase::preparing;
  std::uint32_t generation = 0;
  ProcessId process{};  // of this generation
  std::int64_t pid = 0;
  Endpoint endpoint{};  // ready
  EndCause previous{};  // of the generation before
  bool lent = false;
  Residence residence{};                     // as its executor has said
  std::string running{};                     // name of its call, for people
  bool may_run_again = true;                 // its call, if there is one
  std::uint64_t order = 0;                   // of its start, among all of this agent
  std::optional<ValueRecord> constructed{};  // an actor's constructor has ended

  int failed_starts = 0;  // in a row
  int crashes = 0;        // in a row
  bool stopping = false;
  bool graceful = false;  // stopping: the running call finishes
  bool orderly = false;   // stopping, not graceful: the actor is destroyed and exit handlers run
  std::string stop_why{};
  std::optional<EndKind> retires{};     // said by the executor
  std::uint64_t submitted = 0;          // calls that its executor awaits before it exits as planned
  std::string awaited{};                // name of one of them
  bool departed = false;                // stopping: the head has its resources back
  std::optional<std::string> killed{};  // by us, why
  bool for_memory = false;              // killed: the node was short of it, or it of its share
  bool for_share = false;               // killed: it had more of a device than its share
  std::optional<Time> store_by{};       // stopping: results that it holds are stored by then
  std::optional<Time> deadline{};       // starting, assigned: ready by; stopping: kill at; pausing
  std::optional<Time> armed{};          // see DeadlineHeap

  bool is_actor() const { return !start.actor.actor.empty(); }
  // A command in place of an executor: ready as soon as it runs.
  bool is_entry() const { return start.actor.entry.given(); }
  bool has_process() const { return phase != SlotPhase::preparing && phase != SlotPhase::pausing; }
};

class Slots {
 public:
  // The rest of the core hears of processes that begin and are gone.
  struct Hooks {
    std::function<void(ProcessId, const Principal&)> began;
    std::function<void(ProcessId, const EndCause&)> gone;
  };

  Slots(Outbox& outbox, const WorkerOptions& options, HeadSession& head, Processes& processes,
        Programs& programs, Hooks hooks);

  // ---- what the head says ----------------------------------------------------------------------
  void start(StartSlot start);
  void stop(const StopSlot& stop);
  void job_ended(JobId job, const std::vector<SlotId>& kept);
  // Slots the head does not know: it never booked them, or gave them up.
  void end_unknown(const std::vector<SlotId>& slots);
  // A conversation has begun anew: what facts do not state is told again.
  void restate();

  // ---- what programs and executors do ----------------------------------------------------------
  void program_came(const Programs::Outcome& outcome);
  void started(const ExecutorStarted& started);
  void start_failed(const ExecutorStartFailed& failed);
  void exited(const ExecutorExited& exited);
  void link_lost(SlotId slot, std::uint32_t generation);
  void said_ready(SlotId slot, ExecutorReady ready);
  void said_blocked(SlotId slot, const ExecutorBlocked& message);
  void said_resides(SlotId slot, const Residence& residence);
  void said_retires(SlotId slot, EndKind kind);
  void said_constructed(SlotId slot, ValueRecord error);
  void said_running(SlotId slot, std::string name, bool may_run_again);

  // ---- the agent itself ------------------------------------------------------------------------
  // Nothing starts any more.
  void close(const std::string& why);
  // Likewise; and everything ends, at `kill_at` by force.
  void end_all(bool graceful, const std::string& why, Time kill_at);
  // At once, all of them, without waiting for an end.
  void kill_all(const std::string& why);
  // Ends an executor if the node is short of memory; the head hears when that begins and ends.
  void sampled(const MemorySampled& sample, std::int64_t store_bytes);
  // Reacts to executors that have more of a device than their share.
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
  EndCause explained_end(const SlotRow& row, EndCause cause) const;
  void end(SlotId slot, bool graceful, const std::string& why, bool stores = false, bool orderly = false);
  void ask_to_end(SlotRow& row);
  void departs(SlotId slot, SlotRow& row, const ExecutorBlocked& message);
  void kill(SlotId slot, SlotRow& row, const std::string& why);
  void finish(SlotId slot, EndCause cause, bool cannot_start);
  void tell_lent(SlotId slot, SlotRow& row, bool on);
  void tell_residence(SlotId slot, SlotRow& row, const Residence& residence);
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
  std::deque<EntryEnded> ended_entries_;  // the latest ones, which the next head may have missed
  MemoryPressure pressure_;  // as the head was told last
  bool closed_ = false;  // no new slots
  std::optional<Time> kill_at_;  // closed: all executors
  std::string closed_why_;
};

}  // namespace mobula::internal::worker
