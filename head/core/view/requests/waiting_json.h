// JSON of waiting requests by shape: the number of tasks, actors, and placement groups, and the
// reason. It inspects a bounded number of nodes, so that the loop of the head is not blocked.
// Thread: any. Read-only.
#pragma once

#include "head/core/view/documents.h"
#include "head/core/view/list_part.h"

namespace mobula::internal::head {

// Items have kind, asks, resources, count, jobs, reason (one word in parentheses), text (rejecting
// rules with counts of nodes; empty if that takes too long), and id (one of the requests, for
// explain).
Json waiting_json(const HeadTables& tables);
// Sets `waiting` to the items that are in the part, infeasible ones first, then those of the most
// requests; `waiting_matching` to the number of items that have the text of the part; and
// `waiting_total` to {"shapes", "requests", "infeasible"} over all items.
void add_waiting_part(const HeadTables& tables, const ListPart& part, Json& json);

// Returns the one-word reason why a class waits, for tables.
std::string waits_for(const HeadTables& tables, const DemandClass& demand,
                      scheduler::Tenant tenant);

}  // namespace mobula::internal::head
