// Puts the errors of failed tasks, which the head passes on unopened, into its document: each item
// that has one gets `error_type`, the name users catch it by, and `error_message`. Any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "protocol/task_facts.h"

namespace mobula::internal::cli {

// Looks at the document itself, its `items` and its `subject`; of an explanation the reason ends
// with the error. Bytes that are no error are left out.
void add_errors(nlohmann::ordered_json& document, const std::vector<TaskError>& errors);

}  // namespace mobula::internal::cli
