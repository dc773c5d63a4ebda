// One JSON document with all inputs of a plan of nodes to launch and remove: nodes and their
// allocations, waiting requests (one row per class and job), and groups without bundles.
// Thread: any. Read-only.
// Units: amounts are exact to 1/10000, ids are hexadecimal, idle_ms is null if the node has
// allocations.
//
//   {"kind": "PlannerState", "nodes": […], "slots": […], "groups": […], "warnings": […]}
#pragma once

#include <string>

#include "base/result.h"

namespace mobula::internal::head {

struct HeadTables;

// Errors: resource_exhausted, with the largest list, if the document would exceed
// HeadOptions::max_planner_bytes. A truncated document would describe another cluster.
Result<std::string> planner_json(const HeadTables& tables);

}  // namespace mobula::internal::head
