// Failed tasks that their owners have reported, listed after the owner has ended: a bounded number
// for a bounded time.
// Thread: owner (one HeadCore). Not: failures of living owners, which answer for themselves.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "protocol/messages/facts/task_facts.h"

namespace mobula::internal::head {

struct HeadTables;
struct TaskAnswers;

class FailedTasks {
 public:
  static constexpr std::size_t max_tasks_per_job = 100;  // the oldest are removed first
  static constexpr std::size_t max_jobs = 100;  // the job with the oldest report is removed first
  static constexpr std::int64_t max_error_bytes =
      2 << 20;  // sum over all jobs; further errors are not kept
  static constexpr Duration retention = std::chrono::hours(1);

  explicit FailedTasks(const HeadTables& tables) : tables_(tables) {}

  void reported(ProcessId owner, JobId job, const std::vector<TaskFact>& tasks);
  // Adds the failures of owners that have ended and that match the request, of all jobs if `job` is
  // empty.
  void add_to(TaskAnswers& answers, const TasksRequest& query, JobId job) const;

 private:
  struct Row {
    ProcessId owner;
    TaskFact fact;
    Time at;  // it failed
  };
  struct JobRows {
    std::deque<Row> rows;  // oldest report first
    Time reported;
  };
  void remove_first(JobRows& rows);
  void remove_job(JobId job);
  void expire();

  const HeadTables& tables_;
  std::map<JobId, JobRows> jobs_;
  std::int64_t error_bytes_ = 0;
};

}  // namespace mobula::internal::head
