// Events of the fleet core: answers of the head, of the provider, and of the planner, and orders of
// the operator. The shell reports exactly one answer for each command that requires one.
// Thread: any (plain values).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/id.h"
#include "deploy/fleet/core/instance.h"
#include "scheduler/planner/state.h"

namespace mobula::internal::fleet {

// The head's planner state.
struct SnapshotReceived {
  planner::ClusterState state;
  bool recovering = false;  // the head still waits for known nodes
  // Names of instances whose node has died. The head forgets them after a while.
  std::vector<std::string> dead_instances{};
};

// Answer to MakePlan.
struct Planned {
  std::uint64_t number = 0;
  planner::Plan plan;
};

// Answer to ListInstances. Without `whole`, rows may be missing.
struct Listed {
  std::vector<InstanceRow> rows;
  bool whole = false;
};
struct ListFailed {
  ProviderFailure failure;
};

// Answers to LaunchInstances and EndInstances, with one row for each requested instance.
struct LaunchAnswered {
  std::string type;
  std::vector<InstanceAnswer> answers;
};
struct EndAnswered {
  std::vector<InstanceAnswer> answers;
};

// Answer to CountObjects, per node.
struct Drained {
  NodeId node;
  std::int64_t objects = 0;  // objects that no other node holds
};

struct PauseType {
  std::string type;
  std::string why;
};
struct ResumeType {
  std::string type;
};

// A deadline may have passed.
struct FleetTick {};

using FleetEvent = std::variant<SnapshotReceived, Planned, Listed, ListFailed, LaunchAnswered,
                                EndAnswered, Drained, PauseType, ResumeType, FleetTick>;

}  // namespace mobula::internal::fleet
