// What waits for slots: per holder how many, per class in the order of their turns, and per ask
// (all that decides where a class may run; many classes share one) whether a node could serve it.
// Asks are indexed by their scarcest resource and its amount, so that a freed node opens only asks
// it may serve. Not thread-safe: owned by one core. Places nothing: that is placement.h.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "model/request.h"
#include "scheduler/cluster_view.h"
#include "scheduler/policy.h"
#include "scheduler/slot_books.h"

namespace mobula::internal::scheduler {

using AskNumber = std::uint64_t;

// Turns within a class: who holds fewer slots, then who has gone longer without any service.
struct DemandRank {
  std::int64_t held = 0;
  Time since;
  std::uint64_t sequence = 0;
  friend auto operator<=>(const DemandRank&, const DemandRank&) = default;
};

struct Demand {
  HolderKey key;
  Preference preference;
  std::int64_t wanted = 0;  // slots in all, those held included
  Time oldest_waiting;
  Time last_served;         // when it last got a slot or gave one back
  Time recall_from;         // nothing is recalled for it before
  bool reported = false;    // as infeasible
  bool waiting = false;     // in the tables of its class, under `rank`
  DemandRank rank;
};

struct PendingClass {
  DemandClass demand;
  AskNumber ask = 0;
  std::size_t holders = 0;
  std::map<DemandRank, HolderKey> waiting;
};

struct AskRow {
  Ask ask;
  std::string text;
  std::string scarcest{};
  Quantity scarcest_amount{};
  std::set<ClassKey> classes{}, waiting{};
  std::uint64_t examined_through = 0;  // no node freed up to this stamp fits; 0: nothing is known
  std::uint64_t checked_version = 0;   // of the cluster, when `feasible` was found out
  bool feasible = false;
  NodeId feasible_on{};
};

class PendingDemands {
 public:
  PendingDemands(ClusterView& cluster, const SlotBooks& books) : cluster_(cluster), books_(books) {}

  // Full state of one holder's demand; wanted 0 ends it.
  void set(const Demand& demand, const DemandClass& demand_class);
  void erase(const HolderKey& key);
  void erase_lessee(ProcessId lessee);
  void erase_job(JobId job);
  // What `key` holds has changed.
  void refresh(const HolderKey& key);
  // It gave a slot back: its turn comes after those who have waited meanwhile.
  void gave_back(const HolderKey& key, Time now);

  Demand* find(const HolderKey& key);
  PendingClass& class_at(const ClassKey& key) { return classes_.at(key); }
  bool is_waiting(const ClassKey& key) const;
  AskRow& ask_at(AskNumber number) { return asks_.at(number); }
  // Oldest first by the time since which they got nothing.
  const std::set<std::pair<Time, HolderKey>>& by_age() const { return by_age_; }

  // Opens the asks that a node freed since the last call may serve; returns how many nodes were.
  std::int64_t open_freed();
  const std::set<AskNumber>& open() const { return open_; }
  // At most `limit` of the open asks, those after the ones returned last, going round.
  std::vector<AskNumber> next_open(std::size_t limit);
  // Whether it is open; closes it if no node freed up to `stamp` has enough of what is scarcest
  // for it.
  bool still_open(AskNumber ask, std::uint64_t stamp);
  // The least that any waiting ask wants of what is scarcest for it.
  Quantity least_amount(const std::string& scarcest) const;
  // No node freed up to `stamp` fits.
  void close(AskNumber ask, std::uint64_t stamp);
  // Whether some node present could ever serve it. Remembered until nodes change.
  bool feasible(AskRow& row) const;
  // Waiting demands that no node present can ever serve and that were not returned since the nodes
  // or the demand changed.
  std::vector<HolderKey> take_infeasible();

 private:
  void stop_waiting(Demand& demand);
  void open_in_freed_groups();
  void index(AskNumber number, const AskRow& row);
  void remove_from_index(AskNumber number, const AskRow& row);
  AskNumber ask_for(const ClassKey& key, const DemandClass& demand_class, Tenant tenant);
  void leave_class(const ClassKey& key);

  ClusterView& cluster_;
  const SlotBooks& books_;
  std::map<HolderKey, Demand> demands_;
  std::map<ClassKey, PendingClass> classes_;
  std::map<AskNumber, AskRow> asks_;
  std::map<std::string, AskNumber> ask_by_text_;
  std::map<std::string, std::set<std::pair<Quantity, AskNumber>>> by_scarcest_;
  std::set<std::pair<Time, HolderKey>> by_age_;
  // Not in by_scarcest_: those that insist on a node, and those of a group.
  std::map<NodeId, std::set<AskNumber>> by_node_;
  std::map<GroupId, std::set<AskNumber>> by_group_;
  std::set<AskNumber> open_, unchecked_;
  AskNumber last_opened_ = 0;
  std::uint64_t opened_through_ = 0;
  std::uint64_t opened_version_ = 0;
  std::uint64_t checked_version_ = 0;
  std::uint64_t sequence_ = 0;
};

}  // namespace mobula::internal::scheduler
