// The JSON request of `mobula explain`: the members of TaskOptions that placement looks at, under the rules
// of submission. Pure.
#pragma once

#include <string>

#include "base/result.h"

namespace mobula::internal::cli {

// The same request in the form that heads read; else why a task with these options would be refused.
Result<std::string> checked_request(const std::string& json);

}  // namespace mobula::internal::cli
