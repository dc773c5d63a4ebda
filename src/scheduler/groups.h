// The placement groups: which bundles have a place, and in which order those that have none get one.
// Jobs' priorities come first, then groups that lost bundles, then the groups' own priorities, then the
// order in which they were added.
// A bundle is booked as a slot without an executor; all that lack a place are booked together or not
// at all. Users get in when the owner of the scheduler opens the group (it is durable). A group that
// is removed keeps the bundles in which something still runs. Not thread-safe: owned by one core.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/table.h"
#include "base/time.h"
#include "model/group.h"
#include "scheduler/group_placer.h"
#include "scheduler/slot_books.h"

namespace mobula::internal::scheduler {

struct GroupSettings {
  std::int64_t attempts_per_plan = 64;  // groups looked at in vain
  std::int64_t visits_per_plan = 1000;  // groups met, whether looked at or not
  Duration yield_delay = 5s;            // wait of a group before younger incomplete groups yield bundles to it
};

// Why a bundle has no place: per node the first rule that refuses it, and what the strategy adds.
// Of bundles that ask for the same the first is named.
struct BundleReasons {
  std::int32_t bundle = 0;
  std::size_t alike = 0;  // others that lack a place, too
  std::vector<NodeReason> nodes;
};
struct GroupExplanation {
  bool feasible = false;  // on the nodes present, were they empty
  std::string shortage;   // one sentence, if it is not
  std::string missing{};  // resource that no node has for it; may be empty
  std::vector<std::int32_t> left_over{};  // bundles that would need other nodes, if it is for want of those
  std::optional<Reason> held_back{};  // by its job's quota
  bool fits_now = false;        // all that lack a place would get one
  std::optional<std::vector<SlotId>> obstacle{};  // what would have to end, where it is feasible and does not fit
  std::set<NodeId> obstacle_nodes{};
  std::set<NodeId> reserved{};        // nodes that are withheld for it
  std::size_t slots_to_return = 0;    // there
  std::vector<BundleReasons> bundles;
};

struct GroupNews {
  enum class Kind : std::uint8_t { placed, lost, infeasible };
  GroupId group;
  Kind kind = Kind::placed;
  std::string text{};    // infeasible: the shortage; lost: the reason, if the group yielded its bundles
  bool for_good = false;  // and no node that joins can change it
  std::string missing{};  // infeasible: resource that no node has for it; may be empty
};

class Groups {
 public:
  struct Row {
    GroupSpec spec;
    std::uint64_t sequence = 0;
    std::int32_t job_priority = 0;
    std::vector<BundleSite> sites;
    std::vector<BundlePlace> places;
    std::vector<bool> booked;  // by bundle; not while its node is still expected
    Time waits_since;        // while it lacks a place: since when, as of the plan after that
    bool infeasible = false;  // when that was last looked at
    bool lost = false;       // bundles of it have had places: those it lacks come first
    bool removing = false;   // users of it are ending
    bool forgotten = false;  // and the durable record is gone
    std::uint64_t examined_through = 0;  // nothing freed up to this stamp lets it be placed
    std::uint64_t checked_version = 0;   // of the cluster, when it was last found to have room if empty
    bool complete() const;
  };

  Groups(ClusterView& cluster, SlotBooks& books, const GroupSettings& settings)
      : cluster_(cluster), books_(books), settings_(settings) {}

  // `places`: what a durable record says; empty for a new group.
  void add(const GroupSpec& spec, const std::vector<BundlePlace>& places);
  // Nothing starts in it any more; what is in its bundles is to be ended by the caller, and returned.
  std::vector<SlotId> remove(GroupId id);
  // It is gone from the durable record: its bundles go back as soon as nothing is in them.
  void forget(GroupId id);
  void open(GroupId id) { cluster_.open_group(id); }

  // The node is there, and what it states is booked: bundles that a durable record has on it are, or
  // are lost if what they held is not free.
  void restore_on(Node& node, std::vector<GroupNews>& news);
  // Somewhere: bundles there are given back when nothing runs in them, to find another node.
  void program_cannot_start(ProgramId program, std::vector<GroupNews>& news);
  // Its slots, bundles among them, are being released.
  void node_lost(NodeId node, std::vector<GroupNews>& news);
  // A slot in a bundle of the group is back.
  void slot_gone(GroupId id, std::vector<GroupNews>& news);

  // Priorities of jobs whose groups wait, highest first.
  std::vector<std::int32_t> priorities() const;
  // Places what can be of one priority; true if it stopped before all were looked at.
  bool place(std::int32_t priority, std::vector<GroupNews>& news);
  // Nothing more is to be placed now.
  void rest();
  // Groups that each lack a bundle and hold others could wait for each other for all time. If a group has waited
  // for `yield_delay` and fits once later ones in the queue release their idle bundles, those are released.
  // Returns whether any were.
  bool yield_bundles(Time now, std::vector<GroupNews>& news);
  // Time of the next call of yield_bundles that may change anything.
  std::optional<Time> next_yield() const;
  // Why a group that lacks a bundle waits, as one sentence; empty for other groups.
  std::string why_waiting(GroupId id) const;
  // Those that have begun to wait since the last call have done so from now on.
  void note_waiting(Time now);
  // The first in turn of those that the nodes present, and their jobs' quotas, have room for. Null:
  // there is none among the first few.
  const Row* first_waiting() const;
  // It lacks a place, and could be that first one.
  bool is_waiting(GroupId id) const;

  // How many that wait, and that nodes present could hold, come before tasks and actors of jobs of this priority.
  std::int64_t waiting_before(std::int32_t job_priority) const;
  // The same before a group, which may be only asked about.
  std::int64_t waiting_before(const GroupSpec& spec) const;

  const Row* find(GroupId id) const { return rows_.find(id); }
  const Table<GroupId, Row>& rows() const { return rows_; }
  GroupExplanation explain(const GroupSpec& spec, std::size_t reasons_per_bundle) const;

 private:
  // Minus the job's priority, kept, minus its own priority, sequence.
  using Turn = std::tuple<std::int64_t, bool, std::int64_t, std::uint64_t>;
  enum class Attempt : std::uint8_t { placed, in_vain, not_worth };

  static Turn turn_of(const Row& row);
  std::int64_t waiting_before(const Turn& turn) const;
  Row make_row(const GroupSpec& spec) const;
  void queue(const Row& row);
  Attempt try_to_place(Row& row, std::vector<GroupNews>& news);
  // Whether a node freed since it was looked at could take one of its bundles.
  bool is_worth_a_try(const Row& row) const;
  // Why the job's quota does not allow the bundles that have no place; `ever`: all of them, alone.
  std::optional<Reason> over_quota(const Row& row, bool ever) const;
  // Whatever nodes join.
  bool is_never_to_be(const Row& row) const;
  void report_shortage(Row& row, std::vector<GroupNews>& news);
  void book(Row& row, std::int32_t bundle);
  // The bundles in which something has a slot.
  std::set<std::int32_t> in_use(GroupId id) const;
  void erase_if_over(GroupId id);
  void leave_unusable(Row& row, std::vector<GroupNews>& news);
  void lose(Row& row, std::size_t bundle, std::vector<GroupNews>& news);
  bool fits_now(const Row& row) const;
  // Booked bundles of the group without users.
  std::vector<std::int32_t> idle_bundles(const Row& row) const;
  std::vector<GroupId> donors_for(const Row& row) const;
  struct Shortage {
    std::string text;
    std::string missing{};  // resource; may be empty
  };
  Shortage shortage_of(const GroupSpec& spec) const;
  // The nodes present with nothing booked on them; suspect and draining nodes count as alive.
  ClusterView& empty_cluster() const;

  ClusterView& cluster_;
  SlotBooks& books_;
  const GroupSettings& settings_;
  Table<GroupId, Row> rows_;
  std::map<Turn, GroupId> queue_;
  Turn last_tried_{};
  std::vector<GroupId> begun_to_wait_;
  std::uint64_t sequence_ = 0;
  Time yield_tried_at_;
  std::uint64_t yield_stamp_ = 0;  // stamp of the cluster at the last try
  // Kept up with the nodes while groups wait, so that what never fits is found without a copy of all.
  mutable std::optional<ClusterView> empty_;
  mutable std::uint64_t empty_version_ = 0;
};

// In whose name nodes are reserved for the group.
ClassKey reservation_key(const GroupSpec& spec);
// The slot that a bundle is.
SlotId slot_of(GroupId group, std::int32_t bundle);

}  // namespace mobula::internal::scheduler
