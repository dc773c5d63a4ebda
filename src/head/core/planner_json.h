// All that a plan of nodes to launch and to give back is made from, as one JSON document: nodes with
// what is booked there, what waits for slots (a row for each class of each job, however many wait for
// it), groups without places. Read only.
//
// {"kind": "PlannerState", "nodes": […], "slots": […], "groups": […], "warnings": […]}; amounts are
// exact to 1/10000, ids are in hex, idle_ms is null where something is booked.
#pragma once

#include <string>

#include "base/result.h"

namespace mobula::internal::head {

struct Parts;

// resource_exhausted, with what there is too much of, where it would be longer than
// HeadOptions::max_planner_bytes: a part of it would be another cluster.
Result<std::string> planner_json(const Parts& parts);

}  // namespace mobula::internal::head
