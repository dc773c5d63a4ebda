// JSON that explains why a request is not placed: the first rule that rejects it on each node, with
// numbers, and the slots that would have to end.
// Thread: any. Read-only.
#pragma once

#include <string>

#include "base/result.h"
#include "scheduler/groups/groups.h"

namespace mobula::internal::head {

struct HeadTables;

// `argument` names a submitted job (id, id prefix, or name), an actor, a placement group, or a
// waiting class (id), or is the JSON of a request or group (request_json.h).
Result<std::string> explain_json(const HeadTables& tables, const std::string& argument);

// Returns one sentence that explains why a group is not placed.
std::string reason_of(const scheduler::GroupExplanation& explanation);

}  // namespace mobula::internal::head
