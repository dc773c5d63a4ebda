// What waits for room, by what it asks for: how many tasks, actors and placement groups, and why. Looks at
// a bounded number of nodes, so that the loop is never held up. Read only.
#pragma once

#include "head/core/documents.h"

namespace mobula::internal::head {

// Items with kind, asks, resources, count, jobs, reason (one word in parentheses), text (the rule that refuses, by
// count of nodes; empty where that would take too long) and id (of one of them, for explain).
Json waiting_json(const Parts& parts);

// Why a class waits, in a word that tables have room for.
std::string waits_for(const Parts& parts, const DemandClass& demand, scheduler::Tenant tenant);

}  // namespace mobula::internal::head
