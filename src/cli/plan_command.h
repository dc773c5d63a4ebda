// `mobula plan`: which nodes an autoscaler would launch and give back for what the cluster is asked
// now. Changes nothing. Main thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/command_line.h"
#include "cli/planner_state.h"

namespace mobula::internal::cli {

// Prints the plan, or why there is none, and returns the exit code: that of `explain` where
// something can never be served.
int show_plan(const CommandLine& line);

// The document: kind Plan, a launch per item; and as a page for people.
nlohmann::ordered_json plan_document(const planner::Plan& plan, const PlannerState& state);
std::string format_plan(const nlohmann::ordered_json& document);

}  // namespace mobula::internal::cli
