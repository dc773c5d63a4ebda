// Decides which nodes to launch and which to terminate: a pure function of the state, the waiting
// work, and the available types. Follows Ray's rules (resource_demand_scheduler.py). The same state
// gives the same plan.
// Thread: any.
// Not: clocks, I/O.
#pragma once

#include <vector>

#include "scheduler/planner/state.h"

namespace mobula::internal::planner {

// Promises:
//   - A plan never exceeds the maximum of a type or of the cluster, and reaches the minimum of each
//     type as far as that allows.
//   - Nothing is launched for work that the scheduler can place on running or launching nodes; the
//     scheduler itself decides that.
//   - A group gets nodes for all of its bundles or none, and the scheduler can place it on them.
//   - A node that is launched for work gets some.
//   - A node is terminated if nothing was allocated on it for the timeout and it holds no objects.
//     In addition, no waiting work or standing request would use it, and its type is above its
//     minimum.
//
// Order: minima, standing requests (as if all nodes were empty), groups, slots. The type with the
// best score is launched while it serves work that is left (type_choice.h). Launches for slots are
// limited per plan and type, all others are not.

// `types` have distinct names.
Plan plan(const ClusterState& state, const std::vector<NodeType>& types, const Limits& limits);

}  // namespace mobula::internal::planner
