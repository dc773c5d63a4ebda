// The order in which what waits is served. Jobs by their turns: priority, weighted dominant share, then
// how long they have got nothing; within a job a line of its classes, by priority, slots held, and age. A line
// is kept apart in lanes by what has to be freed before a class may be served, so that something freed
// is offered only to those who may want it. A sweep goes along the lines once for all that was freed
// before it; it may take several rounds, and no class is passed over. Kept while demands and books
// change. Not thread-safe: owned by one core. Places nothing: that is placement.h.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/ordered_runs.h"
#include "base/time.h"
#include "scheduler/ask_table.h"
#include "model/job_terms.h"
#include "scheduler/slot_books.h"

namespace mobula::internal::scheduler {

struct PendingClass;

// Turns within a class: who holds fewer slots, then who has gone longer without any service.
struct DemandRank {
  std::int64_t held = 0;
  Time since;
  std::uint64_t sequence = 0;  // of the demand: no two ranks are equal
  friend auto operator<=>(const DemandRank&, const DemandRank&) = default;
};

// Turns within a job: those of the classes' first demands.
struct LineRank {
  std::int64_t minus_priority = 0;
  DemandRank rank;
  friend auto operator<=>(const LineRank&, const LineRank&) = default;
};

// What has to be freed before those in it may be served.
struct Lane {
  enum class Kind : std::uint8_t {
    unknown,  // nothing: whether it fits anywhere has not been found out
    amount,   // so much of its scarcest resource on one node
    node,     // something on that node
    group,    // something in that placement group
    quota,    // something that its job holds
  };
  Kind kind = Kind::unknown;
  std::uint32_t resource = 0;  // by AskTable's number
  Quantity amount{};
  NodeId node{};
  GroupId group{};
  friend auto operator<=>(const Lane&, const Lane&) = default;

  static Lane of(const AskRow& row);
};

// What was freed, and is being offered to all who may want it.
struct Sweep {
  // How many nodes have how much for one request.
  struct Shares {
    std::uint32_t number = 0;  // of the resource
    std::string resource{};
    std::vector<std::pair<Quantity, std::int64_t>> nodes{};  // the largest amount last
  };
  std::uint64_t number = 0;
  std::uint64_t from = 0;     // nodes freed after this stamp
  std::uint64_t through = 0;  // all of those up to this one will have been offered
  std::set<GroupId> groups{};
  std::vector<NodeId> nodes{};
  std::vector<Shares> shares{};  // of those nodes, in the order of the resources' numbers
  bool empty() const { return nodes.empty() && groups.empty(); }
  // Counts a node, or no more, before and after something on it is booked.
  void count(const Node& node, std::int64_t change);
};

struct JobTurn {
  std::int64_t minus_priority = 0;
  std::int64_t share = 0;
  Time since;
  std::uint64_t sequence = 0;  // of the job
  friend auto operator<=>(const JobTurn&, const JobTurn&) = default;

  // Before all others.
  static JobTurn first() { return {-greatest_priority, 0, {}, 0}; }
};

class WaitingLines {
 public:
  struct Line;
  // The classes of one job in one lane.
  struct Bucket {
    Line* line = nullptr;
    const Lane* lane = nullptr;
    OrderedRuns<LineRank, PendingClass*> classes{};
    std::uint64_t sweep = 0;
    std::optional<LineRank> passed{};  // in that sweep, up to this rank
  };
  struct Line {
    JobId job;
    JobTurn turn{};
    bool in_turn = false;
    Time served{};
    bool quota_open = false;  // what waits for the job's quota may be served
    std::size_t classes = 0;
    std::uint64_t ended_in = 0;  // the last sweep that has passed them all
    std::map<Lane, Bucket> buckets{};
    // Of the lanes for amounts the least by resource, in the order of their numbers; and the other lanes.
    std::vector<std::pair<std::uint32_t, Quantity>> least{};
    std::size_t other_lanes = 0;
  };

  explicit WaitingLines(SlotBooks& books) : books_(books) {}

  Bucket& enter(JobId job, const Lane& lane, const LineRank& rank, PendingClass& of);
  void leave(Bucket& bucket, const LineRank& rank);
  // Another rank in the same lane.
  void move(Bucket& bucket, const LineRank& from, const LineRank& to);
  // The job was given something, or gave it back: it goes after those who have waited meanwhile.
  void served(JobId job, Time now);
  // Shares that have changed since the last call become turns. `all`: any may have.
  void update_turns(bool all);
  // What is empty goes; not while somebody walks along.
  void prune();

  // Goes from line to line in the order of their turns, which may change meanwhile.
  class Walk {
   public:
    explicit Walk(const WaitingLines& lines) : lines_(lines) {}
    // The first line whose turn is not before `turn`, or null.
    Line* at_or_after(const JobTurn& turn);
    // The line after the one that was found last, which had that turn.
    Line* after(const JobTurn& turn);

   private:
    Line* found() const { return at_ == lines_.turns_.end() ? nullptr : at_->second; }
    const WaitingLines& lines_;
    OrderedRuns<JobTurn, Line*>::const_iterator at_;
    std::uint64_t seen_changes_ = 0;
  };
  // The next of a job of those that wait for its quota, or null.
  PendingClass* first_for_quota(JobId job) const;
  // Whether something may be served though nothing was freed: it is not known whether it fits
  // anywhere, or it waited for its job's quota.
  bool has_more_to_try() const { return unknown_ > 0 || quotas_open_ > 0; }
  // Whether a class of the line, or of any, may be served from what was freed; if not, going along is in vain.
  static bool may_serve(const Line& line, const Sweep& sweep);
  bool may_serve_any(const Sweep& sweep) const;
  // All of a line have been passed in a sweep.
  void end(Line& line, const Sweep& sweep);
  // Calls visit(PendingClass&) for classes of jobs of a higher priority, those that wait for their
  // quotas left out, until it returns true; returns whether it did.
  template <class Visit>
  bool any_of_higher(std::int32_t priority, Visit&& visit) const {
    for (const auto& [turn, line] : turns_) {
      if (turn.minus_priority >= -std::int64_t{priority}) return false;
      for (const auto& [lane, bucket] : line->buckets) {
        if (lane.kind == Lane::Kind::quota) continue;
        for (const auto& [rank, of] : bucket.classes) {
          if (visit(*of)) return true;
        }
      }
    }
    return false;
  }
  // Calls visit(const Line&) for the lines of jobs that wait, in the order of their turns, until it returns false.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [turn, line] : turns_) {
      if (!visit(*line)) return;
    }
  }
  // Null: nothing of the job waits.
  const Line* find(JobId job) const {
    const auto at = lines_.find(job);
    return at == lines_.end() ? nullptr : &at->second;
  }
  // The resources that lanes are about, with how many lanes of all lines want which amount.
  using Amounts = std::map<Quantity, std::size_t>;
  const std::map<std::uint32_t, Amounts>& resources() const { return resources_; }

  // Calls visit(Bucket&) for those of a line that may be served from what was freed.
  template <class Visit>
  static void for_each_served(Line& line, const Sweep& sweep, Visit&& visit);

 private:
  void update_turn(Line& line, Time since);
  void open_quota(Line& line);
  void lane_added(Line& line, const Lane& lane);
  void lane_removed(Line& line, const Lane& lane);

  SlotBooks& books_;
  std::map<JobId, Line> lines_;
  OrderedRuns<JobTurn, Line*> turns_;  // of lines with classes
  std::uint64_t turn_changes_ = 1;
  std::map<std::uint32_t, Amounts> resources_;
  std::size_t other_lanes_ = 0;
  std::size_t unknown_ = 0;
  std::size_t quotas_open_ = 0;
  std::vector<std::pair<JobId, Lane>> emptied_;
};

template <class Visit>
void WaitingLines::for_each_served(Line& line, const Sweep& sweep, Visit&& visit) {
  auto& buckets = line.buckets;
  auto at = buckets.begin();
  if (at != buckets.end() && at->first.kind == Lane::Kind::unknown) visit(at->second);
  for (const auto& shares : sweep.shares) {
    if (shares.nodes.empty()) continue;
    const auto most = shares.nodes.back().first;
    at = buckets.lower_bound({.kind = Lane::Kind::amount, .resource = shares.number});
    for (; at != buckets.end() && at->first.kind == Lane::Kind::amount &&
           at->first.resource == shares.number && at->first.amount <= most;
         ++at) {
      visit(at->second);
    }
  }
  // Most lines have no other lanes.
  if (buckets.empty() || buckets.rbegin()->first.kind == Lane::Kind::amount) return;
  const auto each_of = [&](Lane::Kind kind, const auto& freed, auto lane_of) {
    auto lane = buckets.lower_bound({.kind = kind});
    if (lane == buckets.end() || lane->first.kind != kind) return;
    for (const auto& each : freed) {
      const auto found = buckets.find(lane_of(each));
      if (found != buckets.end()) visit(found->second);
    }
  };
  each_of(Lane::Kind::node, sweep.nodes,
          [](NodeId node) { return Lane{.kind = Lane::Kind::node, .node = node}; });
  each_of(Lane::Kind::group, sweep.groups,
          [](GroupId group) { return Lane{.kind = Lane::Kind::group, .group = group}; });
  if (!line.quota_open) return;
  at = buckets.find({.kind = Lane::Kind::quota});
  if (at != buckets.end()) visit(at->second);
}

}  // namespace mobula::internal::scheduler
