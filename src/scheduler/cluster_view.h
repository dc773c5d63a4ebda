// The nodes as the scheduler sees them: state, labels, books, programs that cannot start there, the
// reservation that withholds what is freed, and the rooms: the parts of nodes that bundles of
// placement groups hold, with books of their own. Says why a request may not run on a node, and
// which nodes have become freer since a point in the past, so that only those are looked at again.
// Not thread-safe: owned by one core. Chooses nothing: that is policy.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/ordered_runs.h"
#include "base/table.h"
#include "model/label_selector.h"
#include "model/node_shape.h"
#include "model/reason.h"
#include "model/request.h"
#include "scheduler/free_index.h"
#include "scheduler/instance_ledger.h"
#include "scheduler/need.h"
#include "scheduler/node_order.h"
#include "scheduler/withholding.h"

namespace mobula::internal::scheduler {

enum class NodeState : std::uint8_t { alive, suspect, draining, dead };

using ClassKey = std::pair<JobId, ClassId>;

// Everything about a demand class that decides where it may run.
struct Ask {
  Ask(const Request& request, ProgramId program, Tenant tenant);

  Need need;
  ProgramId program;
  GroupId group;             // empty: outside of all groups
  std::int32_t bundle = -1;  // any of them
  std::optional<NodeId> wanted_node;  // node affinity
  bool wanted_softly = false;
  LabelChoices labels;
  bool spread = false;
  std::vector<NodeId> callers{};  // nodes with a cut link that have to reach it
};

struct Reservation {
  ClassKey owner;
  Need need;
  GroupId group{};  // empty: for a class of requests
  Withholding withheld{};
};

struct Node {
  NodeId id;
  NodeState state = NodeState::alive;
  Labels labels;
  InstanceLedger ledger;
  std::map<ProgramId, std::string> cannot_start;  // the loader's message
  std::unique_ptr<Reservation> reservation;  // few have one
  std::int64_t score = 0;         // packing_score of the books
  std::int64_t spread_slots = 0;  // slots that were placed to be spread
  std::vector<SlotId> slots{};    // in the order of booking
  std::uint64_t freed_at = 0;     // stamp of the last change that may let something fit; 0: none
  std::uint64_t changed_at = 0;   // version of the last change of its state, shape or programs
  NodeRank order_entry{};         // both: while it is alive
  FreeIndex::Entry free_entry{};  // of its present layout
  bool stale = false;             // the indexes are behind its books
};

// The resource of which a need wants the largest part of what the cluster has. No name: it wants
// nothing.
struct Scarcest {
  std::string resource;
  Quantity amount;
};

// What one bundle holds of a node, for those who run in it.
struct Room {
  NodeId node;
  InstanceLedger ledger;
  bool open = false;  // may be used
};

struct GroupRooms {
  std::size_t bundles = 0;
  bool closing = false;                // nothing starts in it any more
  std::map<std::int32_t, Room> rooms;  // by bundle; without those that have no place
};

// A place to start something: a node, or a room there.
struct Spot {
  Node* node = nullptr;
  std::int32_t bundle = -1;  // of the asker's group
  explicit operator bool() const { return node != nullptr; }
};

class ClusterView {
 public:
  // Node books: at most `max_task_slots` tasks each; nodes are packed up to `spread_threshold`
  // (millionths).
  ClusterView(std::int32_t max_task_slots, std::int64_t spread_threshold)
      : max_task_slots_(max_task_slots), spread_threshold_(spread_threshold) {}
  ClusterView(ClusterView&&) = default;
  ClusterView& operator=(ClusterView&&) = default;

  // A view with the same nodes and nothing booked.
  ClusterView emptied() const;
  // Adds a node, or gives the books of one a fresh shape with nothing booked.
  Node& put_node(NodeId id, const NodeShape& shape, NodeState state);
  // The same for a node as it is in another view.
  Node& put_node(const Node& like, NodeState state);
  void remove_node(NodeId id);
  // Whether anything changed.
  bool set_state(NodeId id, NodeState state);
  // `why` empty: the program can start there after all.
  bool set_program(NodeId id, ProgramId program, const std::string& why);
  // Whether the state of the link changed. A link has no direction.
  bool set_link(NodeId one, NodeId other, bool cut);
  // The subset of `callers` that has a cut link, ordered.
  std::vector<NodeId> cut_off(const std::vector<NodeId>& callers) const;
  // The first caller of `ask` that cannot reach the node; null if all can.
  const NodeId* unreached_by(const Node& node, const Ask& ask) const;
  void reserve(Node& node, Reservation reservation);
  void lift_reservation(Node& node);
  // What its reservation has begun or ceased to withhold is looked at anew.
  void withheld_changed(Node& node) { touch(node); }
  // Something was booked on `node`, or freed.
  void took(Node& node);
  void freed(Node& node);

  // A group that may have rooms, from now on or no more.
  void add_group(GroupId group, std::size_t bundles) {
    groups_[group].bundles = bundles;
    freed_groups_.insert(group);
  }
  void drop_group(GroupId group) {
    groups_.erase(group);
    freed_groups_.insert(group);
  }
  // All rooms it has now may be used; none may any more.
  void open_group(GroupId group);
  void close_group(GroupId group);
  void open_room(GroupId group, std::int32_t bundle);
  void add_room(GroupId group, std::int32_t bundle, const Node& node, const Allocation& share);
  void remove_room(GroupId group, std::int32_t bundle);
  const GroupRooms* rooms(GroupId group) const { return groups_.find(group); }
  const Room* room(GroupId group, std::int32_t bundle) const;
  // Groups in which something was freed, placed or lost since the last call.
  bool has_freed_groups() const { return !freed_groups_.empty(); }
  std::set<GroupId> take_freed_groups() { return std::exchange(freed_groups_, {}); }

  // Books `ask`, which fits there.
  Allocation book(Spot spot, const Ask& ask);
  // The books of a node, or of a room there and of the node's places, as `allocation` says. False if
  // its room is unknown.
  bool restore(Node& node, const Allocation& allocation, Occupancy occupancy);
  void free(Node& node, const Allocation& allocation, Occupancy occupancy);
  void lend(Node& node, const Allocation& allocation, Tenant tenant);
  void resume(Node& node, const Allocation& allocation, Tenant tenant);

  // Whether `ask` can start on `node` now. `owner`: the class whose reservation does not bar it.
  bool fits(const Node& node, const Ask& ask, const ClassKey* owner = nullptr) const;
  // The first room of its group into which it fits now.
  Spot room_for(const Ask& ask);
  // Whether one of its group's rooms could ever hold it; true while rooms are still to come.
  bool room_can_ever(const Ask& ask) const;
  // Whether it could on the empty node, which has to be alive or suspect. Affinity is part of it.
  bool can_ever(const Node& node, const Ask& ask) const;
  // The first rule that refuses it, permanent ones first; `fits` if none does.
  Reason why_not(const Node& node, const Ask& ask, const ClassKey* owner = nullptr) const;
  // The node that `ask` insists on: the target of a hard affinity, or of a soft one while that node
  // is there and could ever run it.
  std::optional<NodeId> pinned(const Ask& ask) const;

  Table<NodeId, Node>& nodes() { return nodes_; }
  const Table<NodeId, Node>& nodes() const { return nodes_; }
  // Both of nodes that are alive.
  const NodeOrder& order() {
    update_indexes();
    return order_;
  }
  const FreeIndex& free() {
    update_indexes();
    return free_;
  }
  // Brings them up to the books. What is freed and booked again before changes nothing in them.
  void update_indexes();
  // Sums over all nodes that are not dead; at most what a quantity counts.
  const ResourceSet& totals() const { return totals_; }
  Scarcest scarcest_of(const Need& need) const;
  // Grows when nodes, states, shapes or startable programs change.
  std::uint64_t version() const { return version_; }
  // Calls visit(NodeId) for nodes that were added, changed or removed after `version`. False if that
  // is too long ago to tell: any node may have been.
  template <class Visit>
  bool for_each_changed_since(std::uint64_t version, Visit&& visit) const {
    if (version < changes_from_) return false;
    for (auto at = changes_.upper_bound(version); at != changes_.end(); ++at) visit(at->second);
    return true;
  }
  // Above 0: what was examined up to it was examined.
  std::uint64_t last_stamp() const { return stamp_; }

  // Calls visit(const Node&) for nodes that became freer after `stamp`, longest ago first, until it
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
  std::optional<Reason> never(const Node& node, const Ask& ask) const;
  Room* room_of(const Allocation& allocation);
  bool allows(const Node& node, const Ask& ask) const;
  Reason why_not_in_rooms(const Node& node, const Ask& ask) const;
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
  Table<GroupId, GroupRooms> groups_;
  std::map<NodeId, std::multiset<GroupId>> groups_on_;  // one for each room
  std::set<GroupId> freed_groups_;
  OrderedRuns<std::uint64_t, Node*> freed_;     // by freed_at
  OrderedRuns<std::uint64_t, NodeId> changes_;  // by version
  // By resource. Bytes of many large nodes are more units than a quantity counts, whole ones are not.
  struct Sum {
    std::int64_t whole = 0, units = 0;
  };
  std::map<std::string, Sum> sums_;
  ResourceSet totals_;  // the same, as far as quantities go
  std::uint64_t stamp_ = 1;
  std::uint64_t version_ = 0;
  std::uint64_t changes_from_ = 0;  // changes up to this version may have been forgotten
};

}  // namespace mobula::internal::scheduler
