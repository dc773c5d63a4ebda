// The autoscaler's report to the head, as JSON, and its line for `mobula status`.
// Thread: any; pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "deploy/fleet/core/fleet_commands.h"
#include "deploy/fleet/core/fleet_report.h"

namespace mobula::internal::fleet {

// Returns "3 of gpu starting (oldest 41 s), 2 of cpu draining; spot closed for 4 min: capacity
// (InsufficientInstanceCapacity)". "idle" if there is nothing to say.
std::string line_of(const FleetReport& report);

// {"line", "waits_for", "types": [{"type", "instances": {STATE: N}, "oldest_start_s",
// "pending_reason", "closed", "closed_for_s": null with `closed`: paused, "failures": {KIND: N}}],
// "waits": [{"id", "reason", "never"}], "events": [{"kind", "text"}]}
nlohmann::ordered_json document_of(const FleetReport& report,
                                   const std::vector<RecordEvent>& events);

}  // namespace mobula::internal::fleet
