// A scheduler of the planner's own, on which plans are tried: it has the cluster's nodes with what
// is booked there, takes what waits, and shows what would find a place and what would not; nodes
// that might be launched are added and taken away again. Lives for one plan. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/state.h"
#include "scheduler/scheduler.h"

namespace mobula::internal::planner {

class Rehearsal {
 public:
  enum class Books : std::uint8_t { as_they_are, empty };
  Rehearsal(const std::vector<ClusterNode>& nodes, Books books);

  // A fresh node of this shape. Nodes are numbered over all rehearsals of a plan by `number`.
  NodeId add(const NodeShape& shape, std::uint64_t number);
  void remove(NodeId node) {
    scheduler_.remove_node(node);
    nodes_of_groups_.reset();
  }
  void add_group(const WantedGroup& group);
  // Forgets a group, none of whose bundles has a place.
  void drop_group(GroupId group);
  void want(std::size_t which, const WantedSlots& slots);
  // Places what can be placed.
  void settle();
  // The rows of which slots have got a place since the last call, each once.
  std::set<std::size_t> take_served() { return std::exchange(served_, {}); }

  bool placed(GroupId group) const;
  // Nodes on which bundles of it are.
  std::set<NodeId> nodes_of(GroupId group) const;
  // How many of the slots wanted under `which` have no place.
  std::int64_t unserved(std::size_t which) const;
  // Whether the rehearsal has put anything there.
  bool used(NodeId node) const;
  // Whether a node present could ever serve it.
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
  mutable std::optional<std::set<NodeId>> nodes_of_groups_;  // until something of groups changes
  std::uint64_t next_slot_ = 0;
};

}  // namespace mobula::internal::planner
