// Reads the JSON of what tools ask `explain` about. A request has the members of TaskOptions that place a task
// ({"num_cpus": 1, "num_gpus": 0.5, "gpu_memory": 8000000000, "resources": {"a": 1}, …}; "scheduling" is "Default",
// "Spread" or {"node_id": ID, "soft": true}, and "node_id" alone the same without "soft"); a placement group
// has {"bundles": [{"num_gpus": 1}, …], "strategy": "PACK"}, its bundles the same members without a CPU that
// nobody asked for. Either may have a "priority" and the "job_id" of a job in whose name it is asked; without,
// it is that of a job without terms that starts now. Both are held to the rules of submission
// (request_rules.h, label_syntax.h, job_terms.h).
#pragma once

#include <string>
#include <variant>

#include "base/result.h"
#include "model/group.h"
#include "model/request.h"

namespace mobula::internal::head {

struct AskedRequest {
  Request request;
  JobId job;  // empty: none
};
using Asked = std::variant<AskedRequest, GroupSpec>;

// Fails with invalid_argument, naming the member and the rule.
Result<Asked> asked_from_json(const std::string& text);

}  // namespace mobula::internal::head
