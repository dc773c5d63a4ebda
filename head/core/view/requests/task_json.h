// JSON documents of apiVersion mobula/v1 about single tasks, from the replies of their owners. If a
// task waits for a slot, the head adds the reason of its class. Errors of failed tasks are user
// data and not included.
// Thread: any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "head/core/query/task_query.h"

namespace mobula::internal::head {

struct HeadTables;

struct TaskFilters {
  JobId job;
  std::string name;
  std::vector<TaskPhase> phases;
  // For counts: leaves out processes that owned no task when they were last queried, and have sent
  // nothing since. A call of theirs is counted within 10 s, in older releases within 30 s.
  bool active_owners = false;
  std::optional<std::uint64_t> limit;  // total rows; none: up to the limit of the head
};

// `text` is empty or {"state": ..., "name": ..., "job_id": ..., "limit": ...,
// "owners": "active"}. Each member is an optional string.
Result<TaskFilters> task_filters(const std::string& text);
// Whether `text` is an id or an id prefix and names no job, actor, placement group, or waiting
// class.
bool may_be_task(const HeadTables& tables, const std::string& text);

std::string tasks_json(const HeadTables& tables, const TaskAnswers& answers);
// Returns counts without rows.
std::string task_counts_json(const HeadTables& tables, const TaskAnswers& answers);
// Errors: not_found if no owner has the task; timed_out if some owners did not reply and the others
// do not have it.
Result<std::string> task_json(const HeadTables& tables, const std::string& id,
                              const TaskAnswers& answers);
Result<std::string> explain_task_json(const HeadTables& tables, const std::string& id,
                                      const TaskAnswers& answers);

}  // namespace mobula::internal::head
