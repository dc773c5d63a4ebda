// Commands of the fleet core. Each may be executed late and repeated without harm.
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

// Launches instances with these names, each with a one-time ticket of its own. A name that exists
// already is not launched again.
struct LaunchInstances {
  std::string type;
  std::vector<std::string> names;
};

struct EndInstances {
  std::vector<InstanceRef> instances;
};

struct ListInstances {};

struct DrainNode {
  NodeId node;
  Duration timeout{};
};
struct UndrainNode {
  NodeId node;
};

// Counts the objects that only these draining nodes hold.
struct CountObjects {
  std::vector<NodeId> nodes;
};

// Revokes the ticket of an instance that is gone.
struct RevokeTicket {
  std::string name;
};

struct MakePlan {
  std::uint64_t number = 0;
  planner::ClusterState state;
  std::vector<planner::NodeType> types;
};

// An entry for the head's event log.
struct RecordEvent {
  std::string kind;  // NODE_LAUNCHED, NODE_GIVEN_BACK, LAUNCH_FAILED, TYPE_PAUSED
  std::string text;
};

using FleetCommand = std::variant<LaunchInstances, EndInstances, ListInstances, DrainNode,
                                  UndrainNode, CountObjects, RevokeTicket, MakePlan, RecordEvent>;

}  // namespace mobula::internal::fleet
