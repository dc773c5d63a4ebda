// Parses the JSON that tools send to `explain`: a request or a placement group. Both follow the
// rules of submission (request_rules.h, label_syntax.h, job_terms.h).
// Thread: any.
#pragma once

#include <string>
#include <variant>

#include "base/model/group.h"
#include "base/model/request.h"
#include "base/result.h"

namespace mobula::internal::head {

// A request has the members of TaskOptions that place a task: {"num_cpus": 1, "num_gpus": 0.5,
// "gpu_memory": 8000000000, "resources": {"a": 1}, …}. "scheduling" is "Default", "Spread", or
// {"node_id": ID, "soft": true}; "node_id" alone means the same without "soft". A group is
// {"bundles": [{"num_gpus": 1}, …], "strategy": "PACK"}. A bundle has the same members, but
// "num_cpus" defaults to 0. "priority" and "job_id" apply to both. Without "job_id", the rules of a
// new job without terms apply.
struct ParsedRequest {
  Request request;
  JobId job;  // empty: no job
};
using ParsedShape = std::variant<ParsedRequest, GroupSpec>;

// Errors: invalid_argument, with the member and the rule.
Result<ParsedShape> shape_from_json(const std::string& text);

}  // namespace mobula::internal::head
