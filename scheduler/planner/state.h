// Input and output of the planner: nodes with their allocations, waiting work, available node
// types, and the plan.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/model/group.h"
#include "base/model/node_shape.h"
#include "base/model/request.h"
#include "base/time.h"
#include "scheduler/queues/need.h"

namespace mobula::internal::planner {

// The label with the type of a node.
inline constexpr const char* node_type_label = "mobula.io/node-group";

struct NodeType {
  std::string name;
  NodeShape shape;
  std::int64_t min_workers = 0;
  std::int64_t max_workers = 0;
  Quantity price{};      // of equally good types, the cheapest is launched
  std::string closed{};  // reason for which nothing of the type is launched; empty: open
};

struct Limits {
  std::int64_t max_workers = std::numeric_limits<std::int64_t>::max();  // sum over all types
  // Launches in progress per type: this fraction of the running nodes in thousandths, but at least
  // `launch_at_least`.
  std::int64_t upscaling_milli = 1000;
  std::int64_t launch_at_least = 5;
  Duration idle_timeout = 300s;
  // Time in which a backlog of tasks should drain. 0: one slot for each waiting task.
  Duration target_wait = 30s;
};

enum class NodePhase : std::uint8_t {
  running,
  launching,  // counts with its full capacity
  leaving,    // draining or suspect: present, but nothing starts on it
};

struct ClusterNode {
  NodeId id;
  std::string type;  // empty or unknown: not launched by a plan, and never terminated
  NodeShape shape;
  NodePhase phase = NodePhase::running;
  // Sums of allocations, without bundles of incomplete groups.
  Allocation held{};
  std::int64_t task_slots = 0;  // executors that run tasks
  std::int64_t blocked_task_slots = 0;
  std::int64_t actor_slots = 0;
  bool beside_head = false;
  bool has_objects = false;
  bool draining = false;           // the phase is `leaving` because of a drain
  std::optional<Duration> idle{};  // time without an allocation; empty: something is allocated
  std::vector<ProgramId> cannot_start{};
};

// Slots that wait for a node. Slots that wait for a bundle of a group need no node.
struct WantedSlots {
  DemandClass demand;
  scheduler::Tenant tenant = scheduler::Tenant::task;
  std::int64_t count = 1;
  std::optional<std::int64_t> allowed{};  // slots that the quota of the job permits; empty: all
  std::int64_t held = 0;                  // slots of the class in use
  std::optional<Duration> mean_run{};     // mean run time of its tasks; empty: unknown
  Duration stalled{};                     // time since the last of its tasks left the queue
};

// A group with unplaced bundles.
struct WantedGroup {
  GroupSpec spec;
  std::vector<BundleLocation> locations{};  // by bundle; empty: no bundle is placed
};

// Capacity that must be available even without work.
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
  std::int64_t later = 0;  // further nodes that the launch limit delays
  std::int64_t count() const { return for_minimum + for_standing + for_groups + for_slots; }
  friend bool operator==(const Launch&, const Launch&) = default;
};

struct Termination {
  NodeId node;
  std::string type;
  Duration idle{};
  friend bool operator==(const Termination&, const Termination&) = default;
};

// Work that the plan does not serve, and the reason.
struct Unserved {
  GroupId group;     // empty for other kinds
  ClassId class_id;  // empty together with `group`: a standing request
  Request request;   // set for slots
  std::int64_t count = 1;
  std::string why;
  // no number of nodes of any type, and no present node if it were empty, can serve it
  bool never = false;
};

struct Plan {
  std::vector<Launch> launch;  // by name of the type
  std::vector<Termination> terminate;
  std::vector<Unserved> infeasible;  // never served
  std::vector<Unserved> waiting;     // delayed by a limit or by running work
};

}  // namespace mobula::internal::planner
