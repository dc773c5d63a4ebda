#include "head/core/jobs/failed_tasks.h"

#include <algorithm>
#include <utility>

#include "head/core/head_tables.h"
#include "head/core/query/task_query.h"

namespace mobula::internal::head {
namespace {

constexpr std::size_t max_name_bytes = 1024;

std::int64_t bytes_of(const TaskFact& fact) { return static_cast<std::int64_t>(fact.error.size()); }

bool matches(const TaskFact& fact, const TasksRequest& query) {
  if (!query.name.empty() && query.name != fact.name) return false;
  const bool phase =
      query.phases.empty() || std::ranges::find(query.phases, fact.phase) != query.phases.end();
  return phase && (query.id.empty() || fact.task.hex().starts_with(query.id) ||
                   result_id(fact.task, 0).hex().starts_with(query.id));
}

}  // namespace

void FailedTasks::reported(ProcessId owner, JobId job, const std::vector<TaskFact>& tasks) {
  expire();
  JobRows& known = jobs_[job];
  known.reported = tables_.now;
  for (const TaskFact& fact : tasks) {
    if (fact.phase != TaskPhase::failed || fact.name.size() > max_name_bytes) continue;
    const auto again = std::ranges::find_if(
        known.rows, [&](const Row& each) { return each.fact.task == fact.task; });
    if (again != known.rows.end()) {
      error_bytes_ -= bytes_of(again->fact);
      known.rows.erase(again);
    }
    Row row{owner, fact, tables_.now - fact.since};
    row.fact.arguments.clear();
    row.fact.tensors.clear();
    row.fact.reason.clear();
    if (error_bytes_ + bytes_of(fact) > max_error_bytes) row.fact.error = {};
    error_bytes_ += bytes_of(row.fact);
    known.rows.push_back(std::move(row));
    if (known.rows.size() > max_tasks_per_job) remove_first(known);
  }
  if (jobs_.size() <= max_jobs) return;
  const auto oldest =
      std::ranges::min_element(jobs_, {}, [](const auto& each) { return each.second.reported; });
  remove_job(oldest->first);
}

void FailedTasks::remove_first(JobRows& rows) {
  error_bytes_ -= bytes_of(rows.rows.front().fact);
  rows.rows.pop_front();
}

void FailedTasks::remove_job(JobId job) {
  JobRows& rows = jobs_.at(job);
  while (!rows.rows.empty()) remove_first(rows);
  jobs_.erase(job);
}

void FailedTasks::expire() {
  std::vector<JobId> expired;
  for (const auto& [job, rows] : jobs_) {
    if (tables_.now - rows.reported >= retention) expired.push_back(job);
  }
  for (const JobId job : expired) remove_job(job);
}

void FailedTasks::add_to(TaskAnswers& answers, const TasksRequest& query, JobId job) const {
  for (const auto& [id, rows] : jobs_) {
    if (!job.empty() && id != job) continue;
    for (auto row = rows.rows.rbegin(); row != rows.rows.rend(); ++row) {
      if (tables_.now - row->at >= retention || tables_.processes.find(row->owner) != nullptr)
        continue;
      if (!matches(row->fact, query)) continue;
      const auto is_same = [&](const TaskAnswers::Item& each) {
        return each.fact.task == row->fact.task;
      };
      if (std::ranges::any_of(answers.items, is_same))
        continue;  // its owner ended after it had answered
      if (query.id.empty()) ++answers.counts[{row->fact.name, TaskPhase::failed}];
      if (answers.items.size() >= answers.limit || query.limit == 0) {
        ++answers.left_out;
        continue;
      }
      TaskFact fact = row->fact;
      fact.since = tables_.now - row->at;
      answers.items.push_back({row->owner, id, std::move(fact)});
    }
  }
}

}  // namespace mobula::internal::head
