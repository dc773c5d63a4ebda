// A private scheduler on which plans are tried. It has the nodes and allocations of the cluster,
// receives the waiting work, and shows which of it would be placed. Candidate nodes are added and
// removed.
// Thread: owner (lives for one plan).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/planner/state.h"
#include "scheduler/scheduler.h"

namespace mobula::internal::planner {

class Rehearsal {
 public:
  enum class Books : std::uint8_t { as_they_are, empty };
  Rehearsal(const std::vector<ClusterNode>& nodes, Books accounting);

  // Adds a fresh node of this shape. `number` is unique over all rehearsals of a plan.
  NodeId add(const NodeShape& shape, std::uint64_t number);
  void remove(NodeId node) {
    scheduler_.remove_node(node);
    nodes_of_groups_.reset();
  }
  void add_group(const WantedGroup& group);
  // Removes a group without placed bundles.
  void drop_group(GroupId group);
  void want(std::size_t which, const WantedSlots& slots);
  // Places all work that fits.
  void settle();
  // Rows whose slots were placed since the last call, each once.
  std::set<std::size_t> take_served() { return std::exchange(served_, {}); }

  bool placed(GroupId group) const;
  // Nodes with bundles of the group.
  std::set<NodeId> nodes_of(GroupId group) const;
  // Number of unplaced slots of `which`.
  std::int64_t unserved(std::size_t which) const;
  // Returns true if the rehearsal has placed anything on the node.
  bool used(NodeId node) const;
  // Returns true if a present node could ever serve it.
  bool feasible(const Request& request, ProgramId program, scheduler::Tenant tenant) const {
    return scheduler_.explain(request, program, tenant).feasible;
  }
  bool feasible(const GroupSpec& group) const { return scheduler_.explain(group).feasible; }
  const scheduler::ClusterView& cluster() const { return scheduler_.cluster(); }

 private:
  struct Wanted {
    std::int64_t count = 0;
    std::int64_t granted = 0;
  };

  void restore(const ClusterNode& node);
  const std::set<NodeId>& nodes_of_groups() const;

  scheduler::Scheduler scheduler_;
  std::map<std::size_t, Wanted> wanted_;
  std::map<NodeId, std::int64_t> granted_on_;
  std::set<GroupId> groups_;
  std::set<std::size_t> served_;
  mutable std::optional<std::set<NodeId>> nodes_of_groups_;  // cache, reset when groups change
  std::uint64_t next_slot_ = 0;
};

}  // namespace mobula::internal::planner
