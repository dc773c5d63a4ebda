// All that a plan of nodes to launch and to give back is made from, as one JSON document: nodes with
// what is booked there, what waits for slots, groups without places. Read only.
//
// {"kind": "PlannerState", "nodes": […], "slots": […], "groups": […], "warnings": […]}; amounts are
// exact to 1/10000, ids are in hex, idle_ms is null where something is booked.
#pragma once

#include <string>

namespace mobula::internal::head {

struct Parts;

std::string planner_json(const Parts& parts);

}  // namespace mobula::internal::head
