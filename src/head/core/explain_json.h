// Why something gets no place, as JSON: per node the first rule that refuses, with the numbers, and what would
// have to end. Read only.
#pragma once

#include <string>

#include "base/result.h"
#include "scheduler/groups.h"

namespace mobula::internal::head {

struct Parts;

// `argument`: a submitted job by id, beginning of it or name, the id of an actor, a placement group or a class that waits, or the JSON of a request or of a
// group (request_json.h).
Result<std::string> explain_json(const Parts& parts, const std::string& argument);

// Why a group has no place, in a sentence.
std::string reason_of(const scheduler::GroupExplanation& explanation);

}  // namespace mobula::internal::head
