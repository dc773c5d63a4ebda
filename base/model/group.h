// Placement groups: their requests, and the locations of their bundles.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/id.h"
#include "base/model/node_shape.h"
#include "base/model/request.h"

namespace mobula::internal {

// How the bundles of a group spread over nodes. Part of messages: append only.
enum class GroupStrategy : std::uint8_t {
  pack = 0,           // on few nodes
  spread = 1,         // on many nodes
  strict_pack = 2,    // on one node
  strict_spread = 3,  // each on a different node
};
std::string_view to_string(GroupStrategy strategy);

// Larger groups are rejected, because a group is allocated in one step.
inline constexpr std::size_t max_bundles = 1000;

struct GroupSpec {
  GroupId id;
  JobId job;
  ProcessId creator;
  std::string name;        // empty: none
  std::string name_space;  // empty: namespace of the job
  bool detached = false;   // outlives its job
  GroupStrategy strategy = GroupStrategy::pack;
  // Only resources, device memory, accelerator type, and labels are used.
  std::vector<Request> bundles;
  std::int32_t priority = 0;
  ProgramId program;  // program of the users: bundles avoid nodes on which it cannot start
  MOBULA_FIELDS(id, job, creator, name, name_space, detached, strategy, bundles, priority, program);
  friend bool operator==(const GroupSpec&, const GroupSpec&) = default;
};

// The node and the allocation of one bundle; no node: not placed.
struct BundleLocation {
  NodeId node;
  Allocation allocation;
  MOBULA_FIELDS(node, allocation);
  friend bool operator==(const BundleLocation&, const BundleLocation&) = default;
};

}  // namespace mobula::internal
