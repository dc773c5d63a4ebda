// Options of the fleet core. Plain values.
// Thread: any.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/time.h"
#include "scheduler/planner/state.h"

namespace mobula::internal::fleet {

struct FleetOptions {
  std::string cluster;  // part of the names of the instances
  // Number of the first instance. It exceeds the numbers of all earlier runs of the autoscaler.
  std::uint64_t first_number = 1;
  std::vector<planner::NodeType> types;  // distinct names
  planner::Limits limits;
  std::vector<planner::StandingRequest> standing;
  // Instances of one type that wait at the provider at one time.
  std::int64_t max_pending = std::numeric_limits<std::int64_t>::max();

  Duration launch_timeout = std::chrono::minutes(10);  // from the launch to the join
  Duration drain_timeout = 120s;
  Duration absent_timeout = 30s;  // absence of a joined instance's node
  Duration end_timeout = 60s;     // after which an end without effect is requested again
  Duration list_interval = 10s;   // while instances start or end
  Duration quiet_list_interval = 60s;

  Duration capacity_backoff_initial = 30s;
  Duration capacity_backoff_max = std::chrono::minutes(30);
  Duration quota_backoff = std::chrono::minutes(10);
  Duration transient_backoff_initial = 2s;
  Duration transient_backoff_max = 60s;
  std::int64_t max_launch_tries = 3;   // launches of one instance
  std::int64_t max_failed_starts = 3;  // in a row, until the type is paused
};

}  // namespace mobula::internal::fleet
