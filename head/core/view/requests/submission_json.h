// JSON of submitted jobs: the argument of `submit`, and the items of lists.
// Thread: any.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "head/core/records/rows.h"

namespace mobula::internal::head {

// Parses the argument of `submit` into a new row. Errors: invalid_argument, with the member and the
// rule.
// The argument is {"job_id": hex, "argv": [program, arguments…], "name", "labels": {…}, "env": {…},
// "workdir" or "cwd", "retries": 0, "time_limit_ms": 0, "grace_ms": 10000, "priority": 0,
// "submitted_ms", "request": {…}}. Only job_id and argv are required. "cwd" need not exist on the
// node. The request has the form of request_json.h. An empty one needs a node with a CPU and
// allocates none.
Result<SubmissionRow> submission_from_json(const std::string& text);

nlohmann::ordered_json submission_json(const SubmissionRow& row);

}  // namespace mobula::internal::head
