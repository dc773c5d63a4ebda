// Snapshot of the head's core for tests, checkers, and gauges. Plain structs in the order of the
// core's tables. The core does not read them.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/model/node_shape.h"
#include "protocol/messages/agent_control.h"
#include "protocol/messages/process_control.h"

namespace mobula::internal::head {

enum class NodeState : std::uint8_t {
  expected = 0,
  alive = 1,
  suspect = 2,
  draining = 3,
  dead = 4
};
std::string_view to_string(NodeState state);

struct NodeView {
  NodeId node;
  ProcessId incarnation;
  NodeState state = NodeState::alive;
  Role role = Role::agent;
  NodeShape shape;
};

struct SlotView {
  SlotId slot;
  NodeId node;
  JobId job;
  ClassId demand_class;
  ProcessId lessee;  // empty: slot of an actor
  ActorId actor;
  Allocation allocation;
  std::uint32_t generation = 0;
  bool ready = false;
  bool lent = false;
  bool stopping = false;
};

struct JobView {
  JobId job;
  ProcessId driver;
  bool durable = false;
  bool ended = false;
};

struct ActorView {
  ActorId actor;
  JobId job;
  ActorState state = ActorState::placing;
  std::uint32_t incarnation = 0;
  std::int64_t restarts_used = 0;
  SlotId slot;
  NodeId node;
  std::string name;
  std::string name_space;
  bool detached = false;
  EndCause cause;
};

struct HeadView {
  std::uint64_t epoch = 0;
  bool durable_epoch = false;  // false: no agent is admitted yet
  bool recovering = false;
  std::vector<NodeView> nodes;
  std::vector<SlotView> slots;
  std::vector<JobView> jobs;
  std::vector<ActorView> actors;
  std::size_t groups = 0;  // without removed groups
};

}  // namespace mobula::internal::head
