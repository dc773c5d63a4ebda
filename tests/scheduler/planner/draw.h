// Random clusters, demand, and node types for the properties of the planner.
// Thread: any.
#pragma once

#include "base/random.h"
#include "scheduler/planner/planner.h"
#include "scheduler/shapes.h"

namespace mobula::internal::planner {

struct Case {
  ClusterState state;
  std::vector<NodeType> types;
  Limits limits;
};

Case draw_case(std::uint64_t seed);

// For tests that write cases by hand.
NodeType node_type(const std::string& name, const NodeShape& shape, std::int64_t most,
                   std::int64_t least = 0);
ClusterNode cluster_node(std::uint64_t number, const NodeType& type);
// Tasks of an hour, so that each needs a slot.
WantedSlots wanted(std::uint64_t number, const Request& request, std::int64_t count);
WantedGroup wanted_group(std::uint64_t number, GroupStrategy strategy,
                         std::vector<Request> bundles);

}  // namespace mobula::internal::planner
