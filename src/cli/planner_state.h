// Reads the head's PlannerState document and the list of stored objects into what the planner takes.
// Pure; any thread.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "planner/state.h"

namespace mobula::internal::cli {

struct PlannerState {
  planner::ClusterState cluster;
  std::map<std::string, std::string> names;  // of classes and groups, by id in hex
  std::vector<std::string> warnings;
};

// Fails with corrupt where the document is not as the head writes it.
Result<PlannerState> planner_state_of(const nlohmann::ordered_json& document);
// Notes which nodes hold objects. Where the list is not whole, all of them may.
void add_objects(PlannerState& state, const nlohmann::ordered_json& objects);

}  // namespace mobula::internal::cli
