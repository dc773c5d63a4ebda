// `mobula plan`: the nodes that an autoscaler would launch and remove for the present requests.
// Changes nothing.
// Thread: main.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/command_line.h"
#include "deploy/fleet/planner_state.h"

namespace mobula::internal::cli {

// Prints the plan or the fault. Returns the exit code, 6 if a request can never be served.
int show_plan(const CommandLine& line);

// Returns a document of kind Plan with one launch per item; `format_plan` formats it as a page.
nlohmann::ordered_json plan_document(const planner::Plan& plan, const fleet::PlannerState& state);
std::string format_plan(const nlohmann::ordered_json& document);

}  // namespace mobula::internal::cli
