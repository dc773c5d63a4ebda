// Queues the tasks of each demand class, and sends them to the executors of the slots that serve
// the class. Reports demand to the head, and returns slots that are idle or recalled.
// Thread: owner (one ClientCore).
// Not: the choice of nodes (head); task rows; streams, which CallStreams owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/containers/table.h"
#include "base/model/error_record.h"
#include "client/core/calls/dispatch/class_clocks.h"
#include "client/core/calls/dispatch/compact_queue.h"
#include "client/core/calls/fifo_cache.h"
#include "client/core/calls/streams/call_streams.h"
#include "client/core/refs/object_row.h"
#include "client/core/step_context.h"

namespace mobula::internal::client {

class Dispatcher {
 public:
  // The tasks of this process and their results, as far as the dispatcher reads or changes them.
  class Port {
   public:
    struct ResultCounts {
      std::int32_t refs = 0;
      std::int32_t wants = 0;
      WatcherIndex watchers = no_watcher;
    };

    virtual TaskRow& task_row(TaskId task) = 0;
    virtual const TaskRow* find_task(TaskId task) const = 0;
    virtual const ObjectRow* object_row(ObjectId object) const = 0;
    // Returns true if the task lacks an argument again; it then waits outside the queue.
    virtual bool waits_again(TaskId task) = 0;
    // Returns true if an argument is an error. The task has then failed with that error.
    virtual bool fail_on_argument_errors(TaskId task) = 0;
    virtual void push(TaskId task, StreamRow& stream, ProcessId executor) = 0;
    virtual void finish_with_error(TaskId task, ErrorRecord error) = 0;
    // True if the running Tick queues tasks whose backoff is over.
    virtual bool retries_due() const = 0;

    // A compact task has no rows, so the queue stores the counts of its result. Returns nullopt if
    // the row of the result has further state.
    virtual std::optional<ResultCounts> plain_result(ObjectId result) const = 0;
    virtual void erase_rows(TaskId task, ObjectId result) = 0;
    virtual void add_rows(CompactQueue::Expanded task) = 0;

   protected:
    ~Port() = default;
  };
  using Classes = Table<ClassId, ClassRow>;
  using Slots = Table<SlotId, SlotRow>;

  Dispatcher(StepContext& step, CallStreams& streams, Port& port)
      : step_(step), streams_(streams), port_(port) {}

  // ---- tasks ------------------------------------------------------------------------------------
  // Counts a new task of the class. If the class is known, `spec` needs only the id.
  void add_task(DemandClass&& spec, bool fail_if_infeasible);
  // Counts down when a task of the class is erased.
  void remove_task(ClassId demand_class);
  // Queues a ready task. If many tasks precede it, the dispatcher erases its rows (compact task).
  void join(TaskId task, const TaskRow& row);
  // True if a new task of the class is far from its turn.
  bool is_far(ClassId demand_class) const;
  // Queues a new, ready task that is far from its turn, as a compact task without rows.
  void join_far(TaskId task, const TaskRow& row);
  // Queues a task that was sent before, in front of tasks that were never sent.
  void requeue(TaskId task, ClassId demand_class);
  // Removes a cancelled task from the queue.
  void leave(TaskId task, ClassId demand_class);
  // Updates the mean run time of the class with one run.
  void measure(ClassId demand_class, Duration run_time);
  // Add the rows of the compact tasks that `parent` submitted, or of the one with this result.
  void expand_children(TaskId parent);
  void expand_result(ObjectId result);

  // ---- streams ----------------------------------------------------------------------------------
  void call_left(const StreamRow& stream, ClassId demand_class);
  // Marks the slot's class, because the slot may now serve a task or be returned.
  void slot_changed(SlotId slot);
  bool holds_results(const StreamRow& stream) const;
  void set_holds_results(const StreamRow& stream, bool on);
  // Returns the slot of an unreachable executor to the head. Returns false if the slot serves
  // another executor by now.
  bool give_up(const StreamRow& stream, const std::string& reason);

  // ---- the head ---------------------------------------------------------------------------------
  void on(const SlotReady& message);
  void on(const GenerationEnded& message);
  void on(const SlotLost& message);
  void on(const RecallSlot& message);
  void on(const DemandPlanned& message);
  void on(const DemandInfeasible& message);
  // Sends all state that a new head lacks.
  void restate();
  void return_idle_devices(ClassId except);
  void return_all_slots();
  void forget_all_slots();
  void fail_all(ErrorKind kind, const std::string& why);

  // ---- the end of a step ------------------------------------------------------------------------
  void tick();
  // An event may change slots and queues of a class many times, but the class is dispatched once.
  void dispatch_changed();
  // Updates the deadlines of changed classes, so that `next_deadline` is exact.
  void settle();

  // ---- queries ----------------------------------------------------------------------------------
  const ClassRow* find(ClassId demand_class) const { return classes_.find(demand_class); }
  const SlotRow* find(SlotId slot) const { return slots_.find(slot); }
  const Classes& classes() const { return classes_; }
  const Slots& slots() const { return slots_; }
  CompactQueue& compact() { return backlog_; }
  const CompactQueue& compact() const { return backlog_; }
  std::optional<Time> next_deadline() const { return class_clocks_.earliest(); }
  bool deadlines_are_exact() const;  // for tests; walks over all rows
  // Count of rows of classes and slots that steps have visited, for tests of the cost of a step.
  std::uint64_t visited_rows() const { return visited_rows_; }

 private:
  void report_demand(ClassRow& row);
  void dispatch(ClassId demand_class);
  std::size_t pipeline_depth(const ClassRow& row) const;
  bool dispatch_next(ClassRow& row, bool idle_only);
  std::optional<SlotId> best_slot(const ClassRow& row, const TaskRow& task, bool idle_only) const;
  bool slot_idle(SlotId slot, const ClassRow& own);
  bool is_stuck(const StreamRow& stream) const;
  void take_back_stuck(const ClassRow& row);
  ClassClocks::Reading read_clock(const ClassRow& row) const;

  void preempt(const RecallSlot& message, StreamRow& stream);
  void return_slot(SlotId slot);
  void forget(SlotId slot);

  bool is_far(const ClassRow& demand) const;
  void refill(ClassRow& demand);
  void fail_queued(ClassId demand_class, ErrorKind kind, const std::string& why,
                   const std::string& resource = {});

  StepContext& step_;
  CallStreams& streams_;
  Port& port_;
  Classes classes_;
  Slots slots_;
  CompactQueue backlog_;  // tasks and results without rows
  ClassClocks class_clocks_;
  std::vector<ClassId> stale_;        // classes to dispatch at the end of the step
  FifoCache<SlotId, bool> returned_;  // returned slots, for late messages
  std::uint64_t demand_version_ = 0;
  mutable std::uint64_t visited_rows_ = 0;
};

}  // namespace mobula::internal::client
