// JSON of waiting requests by shape: the number of tasks, actors, and placement groups, and the
// reason. It inspects a bounded number of nodes, so that the loop of the head is not blocked.
// Thread: any. Read-only.
#pragma once

#include "head/core/view/documents.h"

namespace mobula::internal::head {

// Items have kind, asks, resources, count, jobs, reason (one word in parentheses), text (rejecting
// rules with counts of nodes; empty if that takes too long), and id (one of the requests, for
// explain).
Json waiting_json(const HeadTables& tables);

// Returns the one-word reason why a class waits, for tables.
std::string waits_for(const HeadTables& tables, const DemandClass& demand,
                      scheduler::Tenant tenant);

}  // namespace mobula::internal::head
