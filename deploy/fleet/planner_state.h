// Converts the head's PlannerState document and its list of objects to the planner's input.
// Thread: any; pure.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "scheduler/planner/state.h"

namespace mobula::internal::fleet {

struct PlannerState {
  planner::ClusterState cluster;
  std::map<std::string, std::string> names;  // of classes and groups, by id in hexadecimal
  std::vector<std::string> warnings;
  std::vector<std::string> dead_instances{};  // names, from nodes that have died
};

// Fails with corrupt if the document does not have the head's format.
Result<PlannerState> planner_state_of(const nlohmann::ordered_json& document);
// Records the nodes that hold objects. If the list is incomplete, every node may hold some.
void add_objects(PlannerState& state, const nlohmann::ordered_json& objects);

}  // namespace mobula::internal::fleet
