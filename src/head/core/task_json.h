// What owners have said of single tasks, as JSON documents of apiVersion mobula/v1, with the head's
// part where a task waits for a slot: why its class gets none. Errors of failed tasks are not in
// them: they are their users' payloads. Value functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "head/core/task_questions.h"

namespace mobula::internal::head {

struct Parts;

struct TaskFilters {
  JobId job;
  std::string name;
  std::vector<TaskPhase> phases;
  std::optional<std::uint64_t> limit;  // rows in all; nothing: as many as there may be
};

// "" or {"state": ..., "name": ..., "job_id": ..., "limit": ...}, each where it is wanted, as strings.
Result<TaskFilters> task_filters(const std::string& text);
// Whether `text` is an id or an id prefix, and names no job, actor, placement group, or waiting class.
bool may_be_task(const Parts& parts, const std::string& text);

std::string tasks_json(const Parts& parts, const TaskAnswers& answers);
// The same without rows.
std::string task_counts_json(const Parts& parts, const TaskAnswers& answers);
// not_found where nobody has it; timed_out where nobody who answered has it.
Result<std::string> task_json(const Parts& parts, const std::string& id,
                              const TaskAnswers& answers);
Result<std::string> explain_task_json(const Parts& parts, const std::string& id,
                                      const TaskAnswers& answers);

}  // namespace mobula::internal::head
