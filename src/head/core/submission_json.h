// Submitted jobs as JSON: what `submit` asks for, and rows as lists have them.
//
// Asked for is {"job_id": hex, "argv": [program, arguments…], "name", "labels": {…}, "env": {…}, "workdir" or "cwd" (which the
// node need not have),
// "retries": 0, "time_limit_ms": 0, "grace_ms": 10000, "priority": 0, "submitted_ms", "request": {…}}; all but
// job_id and argv may be left out. The request is one of request_json.h; where it asks for nothing, the job needs
// a node with a CPU and holds none.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "head/core/rows.h"

namespace mobula::internal::head {

// A new row; invalid_argument names the member and the rule.
Result<SubmissionRow> submission_from_json(const std::string& text);

nlohmann::ordered_json submission_json(const SubmissionRow& row);

}  // namespace mobula::internal::head
