// The placement groups: the locations of their bundles, and the queue of unplaced groups, ordered
// by priority of the job, lost bundles, priority of the group, and insertion. A bundle is a slot
// without an executor. All missing bundles of a group are allocated together or not at all.
// Thread: owner (one core).
// Not: durability. The owner opens a group to its members when the journal has the group. A removed
// group keeps a bundle until no slot uses it. Its idle bundles wait briefly for the others, because
// otherwise a request for one of them would precede a group of higher priority that needs all.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/containers/table.h"
#include "base/model/group.h"
#include "base/time.h"
#include "scheduler/groups/group_placer.h"
#include "scheduler/ledger/slot_accounting.h"

namespace mobula::internal::scheduler {

struct GroupSettings {
  std::int64_t attempts_per_plan = 64;  // groups tried without success
  std::int64_t visits_per_plan = 1000;  // groups visited, tried or not
  // wait of a group before younger incomplete groups yield bundles to it
  Duration yield_delay = 5s;
  // longest wait of idle bundles of a removed group for its other bundles
  Duration removal_delay = 500ms;
};

// The reasons that a bundle is not placed: the first rule of each node that rejects it. Of bundles
// with equal requests, only the first is reported.
struct BundleReasons {
  std::int32_t bundle = 0;
  std::size_t alike = 0;  // further unplaced bundles with the same request
  std::vector<NodeReason> nodes;
};
struct GroupExplanation {
  bool feasible = false;                  // on the present nodes if they were empty
  std::string shortage;                   // one sentence, if not feasible
  std::string missing{};                  // resource that no node has for it; may be empty
  std::vector<std::int32_t> left_over{};  // bundles that need more nodes than the cluster has
  std::optional<Reason> held_back{};      // set if the quota of its job holds it back
  bool fits_now = false;                  // all unplaced bundles would be placed
  std::optional<std::vector<SlotId>>
      blockers{};  // blocking slots, if it is feasible but does not fit
  std::set<NodeId> blocker_nodes{};
  std::set<NodeId> reserved{};      // nodes reserved for it
  std::size_t slots_to_return = 0;  // recalled slots on these nodes
  std::vector<BundleReasons> bundles;
};

struct GroupNews {
  enum class Kind : std::uint8_t { placed, lost, infeasible };
  GroupId group;
  Kind kind = Kind::placed;
  // infeasible: the shortage; lost: the reason, if the group yielded its bundles
  std::string text{};
  bool for_good = false;  // infeasible with any further node
  std::string missing{};  // infeasible: resource that no node has for it; may be empty
};

class Groups {
 public:
  struct Row {
    GroupSpec spec;
    std::uint64_t sequence = 0;
    std::int32_t job_priority = 0;
    std::vector<BundleSite> sites;
    std::vector<BundleLocation> locations;
    std::vector<bool> booked;  // by bundle: allocated; false until its node has joined again
    Time waits_since;          // unplaced: start of the wait, set by the following plan
    bool infeasible = false;   // result of the last attempt
    bool lost = false;         // its bundles were placed before: missing ones have precedence
    bool removing = false;     // its members are ending
    bool forgotten = false;    // its record is removed from the journal
    std::uint64_t examined_through = 0;  // nothing freed up to this stamp lets it be placed
    // version of the cluster at which it last fitted on empty nodes
    std::uint64_t checked_version = 0;
    bool complete() const;
  };

  Groups(ClusterView& cluster, SlotAccounting& accounting, const GroupSettings& settings)
      : cluster_(cluster), accounting_(accounting), settings_(settings) {}

  // `locations` is the content of a durable record; empty for a new group.
  void add(const GroupSpec& spec, const std::vector<BundleLocation>& locations);
  // Closes the group. The caller ends the slots in its bundles, which are returned.
  std::vector<SlotId> remove(GroupId id);
  // The group is removed from the durable record: its bundles are freed together as soon as they
  // are empty. After `removal_delay`, each is freed alone.
  void forget(GroupId id);
  // Frees the idle bundles of forgotten groups whose delay has ended.
  void free_removed(Time now);
  void open(GroupId id) { cluster_.open_group(id); }

  // Allocates the bundles that durable records have on a node that has joined. Its reported slots
  // are allocated already. A bundle whose resources are not free is lost.
  void restore_on(Node& node, std::vector<GroupNews>& news);
  // Releases bundles without members on nodes where the program cannot start, so that they move.
  void program_cannot_start(ProgramId program, std::vector<GroupNews>& news);
  // Called while the slots of a lost node are released: its bundles are lost.
  void node_lost(NodeId node, std::vector<GroupNews>& news);
  // Called after the release of a slot in a bundle of the group.
  void slot_gone(GroupId id, std::vector<GroupNews>& news);

  // Priorities of jobs with waiting groups, the highest first.
  std::vector<std::int32_t> priorities() const;
  // Places groups of one priority. Returns true if it stopped before all were tried.
  bool place(std::int32_t priority, std::vector<GroupNews>& news);
  // Ends the placement of groups in this plan.
  void rest();
  // Groups that each hold bundles and lack others could wait for each other forever. If a group has
  // waited for `yield_delay` and fits once later ones in the queue release their idle bundles,
  // those are released. Returns true if any were.
  bool yield_bundles(Time now, std::vector<GroupNews>& news);
  // Time of the next call of yield_bundles or free_removed that may change anything.
  std::optional<Time> next_due() const;
  // Reason that an incomplete group waits, as one sentence; empty for other groups.
  std::string why_waiting(GroupId id) const;
  // Sets the start of the wait for groups that began to wait since the last call.
  void note_waiting(Time now);
  // The first group in the queue that the present nodes and the quota of its job could hold. Null
  // if none of the first few qualifies.
  const Row* first_waiting() const;
  // Returns true if it is incomplete and could be that first group.
  bool is_waiting(GroupId id) const;

  // Number of waiting feasible groups that precede tasks and actors of jobs of this priority.
  std::int64_t waiting_before(std::int32_t job_priority) const;
  // Number of such groups that precede a group, which may be hypothetical.
  std::int64_t waiting_before(const GroupSpec& spec) const;

  const Row* find(GroupId id) const { return rows_.find(id); }
  const Table<GroupId, Row>& rows() const { return rows_; }
  GroupExplanation explain(const GroupSpec& spec, std::size_t reasons_per_bundle) const;

 private:
  // Minus the priority of the job, lost bundles, minus its own priority, sequence.
  using Turn = std::tuple<std::int64_t, bool, std::int64_t, std::uint64_t>;
  enum class Attempt : std::uint8_t { placed, in_vain, not_worth };

  static Turn turn_of(const Row& row);
  std::int64_t waiting_before(const Turn& turn) const;
  Row make_row(const GroupSpec& spec) const;
  void queue(const Row& row);
  Attempt try_to_place(Row& row, std::vector<GroupNews>& news);
  // Returns true if a node freed since the last attempt could hold one of its bundles.
  bool is_worth_a_try(const Row& row) const;
  // Why the quota of the job does not allow the unplaced bundles; `ever`: all bundles, with no
  // other slot.
  std::optional<Reason> over_quota(const Row& row, bool ever) const;
  // No joining node can change it.
  bool is_never_to_be(const Row& row) const;
  void report_shortage(Row& row, std::vector<GroupNews>& news);
  void book(Row& row, std::int32_t bundle);
  // The bundles that contain a slot.
  std::set<std::int32_t> in_use(GroupId id) const;
  // Frees the idle bundles of a forgotten group: all together, or each alone after the delay.
  // Removes the row with the last bundle.
  void free_bundles(GroupId id);
  void leave_unusable(Row& row, std::vector<GroupNews>& news);
  void lose(Row& row, std::size_t bundle, std::vector<GroupNews>& news);
  bool fits_now(const Row& row) const;
  // Allocated bundles of the group without members.
  std::vector<std::int32_t> idle_bundles(const Row& row) const;
  std::vector<GroupId> donors_for(const Row& row) const;
  struct Shortage {
    std::string text;
    std::string missing{};  // resource; may be empty
  };
  Shortage shortage_of(const GroupSpec& spec) const;
  // The present nodes with empty ledgers; suspect and draining nodes count as alive.
  ClusterView& empty_cluster() const;

  ClusterView& cluster_;
  SlotAccounting& accounting_;
  const GroupSettings& settings_;
  Table<GroupId, Row> rows_;
  std::map<Turn, GroupId> queue_;
  Turn last_tried_{};
  std::vector<GroupId> begun_to_wait_;
  // Forgotten groups with slots: when their idle bundles are freed. Unset until the next plan.
  std::map<GroupId, std::optional<Time>> ending_;
  std::uint64_t sequence_ = 0;
  Time yield_tried_at_;
  std::uint64_t yield_stamp_ = 0;  // stamp of the cluster at the last attempt
  // Updated with the nodes while groups wait, so that infeasibility is detected without a copy of
  // all nodes.
  mutable std::optional<ClusterView> empty_;
  mutable std::uint64_t empty_version_ = 0;
};

// The key under which nodes are reserved for the group.
ClassKey reservation_key(const GroupSpec& spec);
// The slot id of a bundle.
SlotId slot_of(GroupId group, std::int32_t bundle);

}  // namespace mobula::internal::scheduler
