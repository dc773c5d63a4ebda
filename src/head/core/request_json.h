// Reads the JSON form of a request, as tools give it to `explain`: the members of TaskOptions that
// place a task ({"num_cpus": 1, "num_gpus": 0.5, "gpu_memory": 8e9, "resources": {"a": 1}, …}).
#pragma once

#include <string>

#include "base/result.h"
#include "model/request.h"

namespace mobula::internal::head {

// Fails with invalid_argument, naming the member and the rule.
Result<Request> request_from_json(const std::string& text);

}  // namespace mobula::internal::head
