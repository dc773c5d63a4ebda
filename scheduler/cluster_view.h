// The nodes of the scheduler: state, labels, ledger, failed programs, and reservation, and the
// bundles of placement groups on them, each with its own ledger. Explains why a request may not run
// on a node, and lists nodes with newly freed capacity.
// Thread: owner (one core).
// Not: the choice of a node, see policy.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/containers/ordered_runs.h"
#include "base/containers/table.h"
#include "base/id.h"
#include "base/model/labels/label_selector.h"
#include "base/model/node_shape.h"
#include "base/model/reason.h"
#include "base/model/request.h"
#include "scheduler/ledger/free_index.h"
#include "scheduler/ledger/instance_ledger.h"
#include "scheduler/node_order.h"
#include "scheduler/queues/need.h"
#include "scheduler/queues/reservation_gate.h"

namespace mobula::internal::scheduler {

enum class NodeState : std::uint8_t { alive, suspect, draining, dead };

using ClassKey = std::pair<JobId, ClassId>;

// All properties of a demand class that decide its possible nodes.
struct RequestShape {
  RequestShape(const Request& request, ProgramId program, Tenant tenant);

  Need need;
  ProgramId program;
  GroupId group;                      // empty: outside of all groups
  std::int32_t bundle = -1;           // -1: any bundle
  std::optional<NodeId> wanted_node;  // node affinity
  bool wanted_softly = false;
  LabelChoices labels;
  bool spread = false;
  std::vector<NodeId> callers{};  // nodes with a cut link that have to reach it
};

struct Reservation {
  ClassKey owner;
  Need need;
  GroupId group{};  // empty: reserved for a class of requests
  ReservationGate withheld{};
};

struct Node {
  NodeId id;
  NodeState state = NodeState::alive;
  Labels labels;
  InstanceLedger ledger;
  std::map<ProgramId, std::string> cannot_start;  // message of the loader by program
  std::unique_ptr<Reservation> reservation;       // null for most nodes
  std::int64_t score = 0;                         // packing_score of the ledger
  std::int64_t spread_slots = 0;                  // slots placed by the spread strategy
  std::vector<SlotId> slots{};                    // in order of allocation
  std::uint64_t freed_at = 0;     // stamp of the last change that may let a request fit; 0: none
  std::uint64_t changed_at = 0;   // version of the last change of its state, shape, or programs
  NodeRank order_entry{};         // like free_entry, valid while the node is alive
  FreeIndex::Entry free_entry{};  // entry of its present layout
  bool stale = false;             // the indexes do not reflect its ledger yet
};

// The resource of which a need takes the largest fraction of the cluster. Empty name: it needs
// nothing.
struct Scarcest {
  std::string resource;
  Quantity amount;
};

// The capacity of one bundle on a node, for the members of its group.
struct BundleCapacity {
  NodeId node;
  InstanceLedger ledger;
  bool open = false;  // members may use it
};

struct GroupBundles {
  std::size_t bundles = 0;
  bool closing = false;  // accepts no further slots
  std::map<std::int32_t, BundleCapacity>
      capacities;  // by bundle; without bundles that are not placed
};

// A placement target: a node, or a bundle on it.
struct PlacementTarget {
  Node* node = nullptr;
  std::int32_t bundle = -1;  // bundle of the requester's group
  explicit operator bool() const { return node != nullptr; }
};

class ClusterView {
 public:
  // Each ledger allows at most `max_task_slots` task slots; nodes are packed up to
  // `spread_threshold` (millionths).
  ClusterView(std::int32_t max_task_slots, std::int64_t spread_threshold)
      : max_task_slots_(max_task_slots), spread_threshold_(spread_threshold) {}
  ClusterView(ClusterView&&) = default;
  ClusterView& operator=(ClusterView&&) = default;

  // A copy with the same nodes and empty ledgers.
  ClusterView emptied() const;
  // Adds a node, or replaces the ledger of a known one by an empty ledger of the new shape.
  Node& put_node(NodeId id, const NodeShape& shape, NodeState state);
  // Copies the shape of a node of another view.
  Node& put_node(const Node& like, NodeState state);
  void remove_node(NodeId id);
  // Returns true if the state changed.
  bool set_state(NodeId id, NodeState state);
  // Empty `why`: the program can start there again.
  bool set_program(NodeId id, ProgramId program, const std::string& why);
  // Whether the state of the link changed. A link has no direction.
  bool set_link(NodeId one, NodeId other, bool cut);
  // The subset of `callers` that has a cut link, ordered.
  std::vector<NodeId> cut_off(const std::vector<NodeId>& callers) const;
  // The first caller of `shape` that cannot reach the node; null if all can.
  const NodeId* unreached_by(const Node& node, const RequestShape& shape) const;
  void reserve(Node& node, Reservation reservation);
  void lift_reservation(Node& node);
  // Re-examines the node, because its reservation has opened or closed.
  void withheld_changed(Node& node) { touch(node); }
  // Records that capacity of `node` was allocated, or freed.
  void took(Node& node);
  void freed(Node& node);

  // Adds or removes a group that may have bundles.
  void add_group(GroupId group, std::size_t bundles) {
    groups_[group].bundles = bundles;
    freed_groups_.insert(group);
  }
  void drop_group(GroupId group) {
    groups_.erase(group);
    freed_groups_.insert(group);
  }
  // Opens all present bundles of a group to its members, or closes the group.
  void open_group(GroupId group);
  void close_group(GroupId group);
  void open_bundle(GroupId group, std::int32_t bundle);
  void add_bundle(GroupId group, std::int32_t bundle, const Node& node, const Allocation& share);
  void remove_bundle(GroupId group, std::int32_t bundle);
  const GroupBundles* bundles_of(GroupId group) const { return groups_.find(group); }
  const BundleCapacity* capacity(GroupId group, std::int32_t bundle) const;
  // The groups with bundles on the node, one entry per bundle; null without any.
  const std::multiset<GroupId>* groups_on(NodeId node) const {
    const auto at = groups_on_.find(node);
    return at == groups_on_.end() ? nullptr : &at->second;
  }
  // Groups in which capacity was freed, placed, or lost since the last call.
  bool has_freed_groups() const { return !freed_groups_.empty(); }
  std::set<GroupId> take_freed_groups() { return std::exchange(freed_groups_, {}); }

  // Allocates `shape`, which must fit there.
  Allocation book(PlacementTarget target, const RequestShape& shape);
  // Change the ledger of a node, or of a bundle there together with the executor slots of the
  // node. False if the bundle is unknown.
  bool restore(Node& node, const Allocation& allocation, Occupancy occupancy);
  void free(Node& node, const Allocation& allocation, Occupancy occupancy);
  void release_cpu(Node& node, const Allocation& allocation, Tenant tenant);
  void reacquire_cpu(Node& node, const Allocation& allocation, Tenant tenant);

  // Returns true if `shape` can start on `node` now. `owner` is the class whose reservation
  // does not exclude it.
  bool fits(const Node& node, const RequestShape& shape, const ClassKey* owner = nullptr) const;
  // The first bundle of its group into which it fits now.
  PlacementTarget capacity_for(const RequestShape& shape);
  // Returns true if a bundle of its group could ever hold it, or if bundles are still to be placed.
  bool bundle_can_ever(const RequestShape& shape) const;
  // Returns true if it would fit on the empty node, which must not be dead: a draining node may
  // return. Includes affinity.
  bool can_ever(const Node& node, const RequestShape& shape) const;
  // The first rule that rejects it, permanent rules first; `fits` if no rule does.
  Reason why_not(const Node& node, const RequestShape& shape,
                 const ClassKey* owner = nullptr) const;
  // The node that `shape` requires: the target of a hard affinity, or of a soft one while that node
  // is present and could ever run it.
  std::optional<NodeId> pinned(const RequestShape& shape) const;

  Table<NodeId, Node>& nodes() { return nodes_; }
  const Table<NodeId, Node>& nodes() const { return nodes_; }
  // Both indexes contain only nodes that are alive.
  const NodeOrder& order() {
    update_indexes();
    return order_;
  }
  const FreeIndex& free() {
    update_indexes();
    return free_;
  }
  // Updates the indexes from the ledgers. Capacity that is freed and allocated again in between
  // changes nothing.
  void update_indexes();
  // Sums over all nodes that are not dead, saturated at the largest Quantity.
  const ResourceSet& totals() const { return totals_; }
  Scarcest scarcest_of(const Need& need) const;
  // Grows when nodes, states, shapes, or startable programs change.
  std::uint64_t version() const { return version_; }
  // Calls visit(NodeId) for nodes that were added, changed, or removed after `version`. Returns
  // false if `version` is too old, so any node may have changed.
  template <class Visit>
  bool for_each_changed_since(std::uint64_t version, Visit&& visit) const {
    if (version < changes_from_) return false;
    for (auto at = changes_.upper_bound(version); at != changes_.end(); ++at) visit(at->second);
    return true;
  }
  // Above 0. An examination at this stamp covers all earlier changes.
  std::uint64_t last_stamp() const { return stamp_; }

  // Calls visit(const Node&) for nodes that were freed after `stamp`, the earliest first, until it
  // returns true; returns whether it did.
  template <class Visit>
  bool any_freed_since(std::uint64_t stamp, Visit&& visit) const {
    for (auto at = freed_.upper_bound(stamp); at != freed_.end(); ++at) {
      if (visit(std::as_const(*at->second))) return true;
    }
    return false;
  }

 private:
  Node& put_node(NodeId id, const Labels& labels, const SharedLayout& layout, NodeState state);
  std::optional<Reason> never(const Node& node, const RequestShape& shape) const;
  BundleCapacity* capacity_of(const Allocation& allocation);
  bool allows(const Node& node, const RequestShape& shape) const;
  Reason why_not_in_bundles(const Node& node, const RequestShape& shape) const;
  void touch(Node& node);
  void changed(NodeId id, Node* node);
  void count_totals(const Node& node, int sign);

  std::int32_t max_task_slots_;
  std::int64_t spread_threshold_;
  LayoutTable layouts_;
  Table<NodeId, Node> nodes_;
  NodeOrder order_;
  FreeIndex free_;
  std::vector<Node*> stale_;
  std::map<NodeId, std::set<NodeId>> cut_links_;  // both directions
  Table<GroupId, GroupBundles> groups_;
  std::map<NodeId, std::multiset<GroupId>> groups_on_;  // one entry per bundle
  std::set<GroupId> freed_groups_;
  OrderedRuns<std::uint64_t, Node*> freed_;     // by freed_at
  OrderedRuns<std::uint64_t, NodeId> changes_;  // by version
  // Sums by resource. Bytes of many large nodes have more units than a Quantity can count, so whole
  // amounts and units are separate.
  struct Sum {
    std::int64_t whole = 0, units = 0;
  };
  std::map<std::string, Sum> sums_;
  ResourceSet totals_;  // saturated copy of `sums_`
  std::uint64_t stamp_ = 1;
  std::uint64_t version_ = 0;
  std::uint64_t changes_from_ = 0;  // changes up to this version may have been dropped
};

}  // namespace mobula::internal::scheduler
