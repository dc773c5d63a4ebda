// Which nodes to launch and which to give back: a pure function of what is there, what waits, and
// what could be had. Ray's rules (resource_demand_scheduler.py), with these promises:
//   - no type and no cluster ever grows over its maximum by a plan, and every type reaches its
//     minimum as far as that allows;
//   - nothing is launched for what the scheduler can place on the nodes that run or are launching:
//     the scheduler itself is asked;
//   - a group gets nodes for all of its bundles or none, and with them the scheduler can place it;
//   - a node that is launched for work gets some;
//   - a node goes when nothing was booked there for the time-out, it holds no objects, nothing that
//     waits or stands would use it, and its type has more than its minimum.
// In this order: minima, standing requests (as if nothing ran), groups, slots. The type with the
// best score is launched while something is left that a type serves (type_choice.h). Launches for
// slots are bounded per plan and type; those for minima, standing requests and groups are not. No
// clock, no I/O; the same state gives the same plan.
#pragma once

#include <vector>

#include "planner/state.h"

namespace mobula::internal::planner {

// `types` by distinct names.
Plan plan(const ClusterState& state, const std::vector<NodeType>& types, const Limits& limits);

}  // namespace mobula::internal::planner
