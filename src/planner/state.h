// What the planner looks at, and what it says: nodes with what is booked there, what waits, the
// types of nodes that could be had, and the plan. Plain values.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "model/group.h"
#include "model/node_shape.h"
#include "model/request.h"
#include "scheduler/need.h"

namespace mobula::internal::planner {

// The label by which a node says of which type it is.
inline constexpr const char* node_type_label = "mobula.io/node-group";

struct NodeType {
  std::string name;
  NodeShape shape;
  std::int64_t min_workers = 0;
  std::int64_t max_workers = 0;
};

struct Limits {
  std::int64_t max_workers = std::numeric_limits<std::int64_t>::max();  // of all types together
  // At once, per type: this part of those that run, in thousandths, but always `launch_at_least`.
  std::int64_t upscaling_milli = 1000;
  std::int64_t launch_at_least = 5;
  Duration idle_timeout = 300s;
};

enum class NodePhase : std::uint8_t {
  running,
  launching,  // counts with all it will have
  leaving,    // drained or silent: there, but nothing starts on it
};

struct ClusterNode {
  NodeId id;
  std::string type;  // empty, or none of those given: it came by other ways, and is never ended
  NodeShape shape;
  NodePhase phase = NodePhase::running;
  // What is booked, in sums; bundles of groups that still wait for others are left out.
  Allocation held{};
  std::int64_t task_slots = 0;  // executors that run tasks
  std::int64_t blocked_task_slots = 0;
  std::int64_t actor_slots = 0;
  bool beside_head = false;
  bool has_objects = false;
  std::optional<Duration> idle{};  // for so long nothing was booked; none: something is
  std::vector<ProgramId> cannot_start{};
};

// Slots that wait for a node. Those that wait for a bundle of a group are no demand for nodes.
struct WantedSlots {
  DemandClass demand;
  scheduler::Tenant tenant = scheduler::Tenant::task;
  std::int64_t count = 1;
};

// A group with bundles that have no place.
struct WantedGroup {
  GroupSpec spec;
  std::vector<BundlePlace> places{};  // by bundle; empty: none has one
};

// Room that is to be there whether or not anything runs.
struct StandingRequest {
  Request request;
  std::int64_t count = 1;
};

struct ClusterState {
  std::vector<ClusterNode> nodes;
  std::vector<WantedGroup> groups;  // in the order of their turns
  std::vector<WantedSlots> slots;
  std::vector<StandingRequest> standing;
};

struct Launch {
  std::string type;
  std::int64_t for_minimum = 0;
  std::int64_t for_standing = 0;
  std::int64_t for_groups = 0;
  std::int64_t for_slots = 0;
  std::int64_t later = 0;  // more are wanted, when these run: so many at once is the limit
  std::int64_t count() const { return for_minimum + for_standing + for_groups + for_slots; }
  friend bool operator==(const Launch&, const Launch&) = default;
};

struct Termination {
  NodeId node;
  std::string type;
  Duration idle{};
  friend bool operator==(const Termination&, const Termination&) = default;
};

// What the plan does not serve, and why.
struct Unserved {
  GroupId group;    // or
  ClassId class_id; // or neither: a standing request
  Request request;  // of slots
  std::int64_t count = 1;
  std::string why;
  bool never = false;  // no type of node, however many, and no node present, were it empty
};

struct Plan {
  std::vector<Launch> launch;        // by the name of the type
  std::vector<Termination> terminate;
  std::vector<Unserved> infeasible;  // never served
  std::vector<Unserved> waiting;     // a limit, or what runs, is in its way
};

}  // namespace mobula::internal::planner
