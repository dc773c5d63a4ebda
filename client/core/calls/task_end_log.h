// Log of the ends of this process's tasks: for task queries, for timelines, for the report of
// failures to the head, and for the report of unread failures when the driver ends.
// Thread: owner (one ClientCore). Not: task rows; decisions about retries.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/core/calls/finished_tasks.h"
#include "client/core/calls/task_row.h"
#include "client/core/calls/use_counters.h"
#include "client/core/owned_spans.h"
#include "client/core/refs/unread_errors.h"
#include "client/core/step_context.h"

namespace mobula::internal::client {

class TaskEndLog {
 public:
  explicit TaskEndLog(StepContext& step) : step_(step) {}

  // The task is submitted, taken over, or recomputed.
  void begin(const TaskRow& row) { uses_.submitted(row.call.form, row.demand_class, step_.now()); }
  // A call got its reply. Tasks that `record` finds without an executor ended with the latest one.
  void replied(const Answered& reply) { answered_ = reply; }
  // The task ended with these results. Its row is as it was before its end.
  void record(TaskId task, const TaskRow& row, const Results& results);
  // Sends the failures and the totals of classes that the head does not know, once they are due.
  void tick();
  std::optional<Time> next_deadline() const;

  // Code has read the failure, or it is passed to another process or becomes the cause of another
  // failure.
  void mark_read(TaskId task) { unread_.read(task); }
  bool is_unread(TaskId task) const { return unread_.contains(task); }
  std::string unread_errors() const { return unread_.report(); }

  // The latest failures that the head does not know. `request` is 0.
  FailureReport unreported_failures() const;
  UseCounters& uses() { return uses_; }
  const UseCounters& uses() const { return uses_; }
  const FinishedTasks& finished() const { return finished_; }
  const OwnedCalls& calls() const { return calls_; }
  static TaskFact fact_of(const EndedTask& ended, Time now);

 private:
  void count(const TaskRow& row, bool is_sent, bool is_error);
  void note_error(TaskId task, const TaskRow& row, const Results& results);

  StepContext& step_;
  FinishedTasks finished_;
  OwnedCalls calls_;
  UseCounters uses_;
  UnreadErrors unread_;
  Answered answered_;                    // reply that was processed last
  std::uint64_t reported_failures_ = 0;  // count of finished_.failures() that the head knows
  std::optional<Time> failures_due_;     // time of the next report
};

}  // namespace mobula::internal::client
