// Wait queues: the order in which waiting classes are served. Jobs are ordered by priority,
// weighted dominant share, then wait since the last grant; classes of a job by priority, held
// slots, and age. Each queue has buckets by the resource that blocks them (Lane), so freed capacity
// is offered only to classes that may use it.
// Thread: owner (one core).
// Not: placement, see placement.h. A sweep walks the queues once for all capacity freed before it,
// possibly over several rounds, and skips no class.
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

#include "base/containers/ordered_runs.h"
#include "base/id.h"
#include "base/model/jobs/job_terms.h"
#include "base/time.h"
#include "scheduler/ledger/slot_accounting.h"
#include "scheduler/queues/request_shapes.h"

namespace mobula::internal::scheduler {

struct PendingClass;

// Order within a class: fewer held slots first, then the longer wait without service.
struct DemandRank {
  std::int64_t held = 0;
  Time since;
  std::uint64_t sequence = 0;  // sequence of the demand, so that no two ranks are equal
  friend auto operator<=>(const DemandRank&, const DemandRank&) = default;
};

// Order within a job, by the first demand of each class.
struct JobQueueRank {
  std::int64_t minus_priority = 0;
  DemandRank rank;
  friend auto operator<=>(const JobQueueRank&, const JobQueueRank&) = default;
};

// The blocking condition of a bucket: the change that its classes wait for.
struct BucketKey {
  enum class Kind : std::uint8_t {
    unknown,  // none: the fit of its classes is unknown
    amount,   // an amount of its scarcest resource on one node
    node,     // capacity on that node
    group,    // capacity in that placement group
    quota,    // resources that its job holds
  };
  Kind kind = Kind::unknown;
  std::uint32_t resource = 0;  // number in RequestShapes
  Quantity amount{};
  NodeId node{};
  GroupId group{};
  friend auto operator<=>(const BucketKey&, const BucketKey&) = default;

  static BucketKey of(const ShapeRow& row);
};

// Freed capacity that is being offered to all classes that may use it.
struct Sweep {
  // Number of nodes by the amount that one request could get there.
  struct Shares {
    std::uint32_t number = 0;  // number of the resource
    std::string resource{};
    std::vector<std::pair<Quantity, std::int64_t>> nodes{};  // ascending amounts
  };
  std::uint64_t number = 0;
  std::uint64_t from = 0;     // nodes freed after this stamp
  std::uint64_t through = 0;  // nodes freed up to this stamp will have been offered
  std::set<GroupId> groups{};
  std::vector<NodeId> nodes{};
  std::vector<Shares> shares{};  // shares of those nodes, ordered by the number of the resource
  bool empty() const { return nodes.empty() && groups.empty(); }
  // Adds or removes a node in the counts, before and after an allocation on it.
  void count(const Node& node, std::int64_t change);
};

struct JobTurn {
  std::int64_t minus_priority = 0;
  std::int64_t share = 0;
  Time since;
  std::uint64_t sequence = 0;  // sequence of the job
  friend auto operator<=>(const JobTurn&, const JobTurn&) = default;

  // A turn before all others.
  static JobTurn first() { return {-greatest_priority, 0, {}, 0}; }
};

class WaitQueues {
 public:
  struct JobQueue;
  // The classes of one job with one blocking condition.
  struct Bucket {
    JobQueue* queue = nullptr;
    const BucketKey* bucket_key = nullptr;
    OrderedRuns<JobQueueRank, PendingClass*> classes{};
    std::uint64_t sweep = 0;
    std::optional<JobQueueRank> passed{};  // position in that sweep
  };
  struct JobQueue {
    JobId job;
    JobTurn turn{};
    bool in_turn = false;
    Time served{};
    bool quota_open = false;  // classes that wait for the quota of the job may be served
    std::size_t classes = 0;
    std::uint64_t ended_in = 0;  // last sweep that passed all of them
    std::map<BucketKey, Bucket> buckets{};
    // The least amount by resource over the `amount` buckets, ordered by number; then the number of
    // other buckets.
    std::vector<std::pair<std::uint32_t, Quantity>> least{};
    std::size_t other_lanes = 0;
  };

  explicit WaitQueues(SlotAccounting& accounting) : accounting_(accounting) {}

  Bucket& enter(JobId job, const BucketKey& bucket_key, const JobQueueRank& rank, PendingClass& of);
  void leave(Bucket& bucket, const JobQueueRank& rank);
  // Changes the rank within the bucket.
  void move(Bucket& bucket, const JobQueueRank& from, const JobQueueRank& to);
  // The job received or returned a slot: it moves behind jobs that waited in between.
  void served(JobId job, Time now);
  // Updates the turns from shares that changed since the last call. `all`: any may have changed.
  void update_turns(bool all);
  // Removes empty buckets; not allowed during a walk.
  void prune();

  // Walks the queues in the order of their turns, which may change during the walk.
  class Walk {
   public:
    explicit Walk(const WaitQueues& queues) : queues_(queues) {}
    // The first queue whose turn is not before `turn`, or null.
    JobQueue* at_or_after(const JobTurn& turn);
    // The queue after the last one found, which had that turn.
    JobQueue* after(const JobTurn& turn);

   private:
    JobQueue* found() const { return at_ == queues_.turns_.end() ? nullptr : at_->second; }
    const WaitQueues& queues_;
    OrderedRuns<JobTurn, JobQueue*>::const_iterator at_;
    std::uint64_t seen_changes_ = 0;
  };
  // The next class of a job that waits for its quota, or null.
  PendingClass* first_for_quota(JobId job) const;
  // Returns true if a class may be served without freed capacity: its fit is unknown, or it waited
  // for the quota of its job.
  bool has_more_to_try() const { return unknown_ > 0 || quotas_open_ > 0; }
  // Returns true if the freed capacity may serve a class of the queue, or of any queue. Otherwise a
  // walk is useless.
  static bool may_serve(const JobQueue& queue, const Sweep& sweep);
  bool may_serve_any(const Sweep& sweep) const;
  // All classes of a queue were passed in a sweep.
  void end(JobQueue& queue, const Sweep& sweep);
  // Calls visit(PendingClass&) for classes of jobs of a higher priority, except those that wait for
  // their quota, until it returns true; returns whether it did.
  template <class Visit>
  bool any_of_higher(std::int32_t priority, Visit&& visit) const {
    for (const auto& [turn, queue] : turns_) {
      if (turn.minus_priority >= -std::int64_t{priority}) return false;
      for (const auto& [bucket_key, bucket] : queue->buckets) {
        if (bucket_key.kind == BucketKey::Kind::quota) continue;
        for (const auto& [rank, of] : bucket.classes) {
          if (visit(*of)) return true;
        }
      }
    }
    return false;
  }
  // Calls visit(const Line&) for the queues of waiting jobs in the order of their turns, until it
  // returns false.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [turn, queue] : turns_) {
      if (!visit(*queue)) return;
    }
  }
  // Null if the job has no waiting class.
  const JobQueue* find(JobId job) const {
    const auto at = queues_.find(job);
    return at == queues_.end() ? nullptr : &at->second;
  }
  // Number of buckets of all queues by resource and amount.
  using Amounts = std::map<Quantity, std::size_t>;
  const std::map<std::uint32_t, Amounts>& resources() const { return resources_; }

  // Calls visit(Bucket&) for the buckets of a queue that the freed capacity may serve.
  template <class Visit>
  static void for_each_served(JobQueue& queue, const Sweep& sweep, Visit&& visit);

 private:
  void update_turn(JobQueue& queue, Time since);
  void open_quota(JobQueue& queue);
  void bucket_added(JobQueue& queue, const BucketKey& bucket_key);
  void bucket_removed(JobQueue& queue, const BucketKey& bucket_key);

  SlotAccounting& accounting_;
  std::map<JobId, JobQueue> queues_;
  OrderedRuns<JobTurn, JobQueue*> turns_;  // queues with classes
  std::uint64_t turn_changes_ = 1;
  std::map<std::uint32_t, Amounts> resources_;
  std::size_t other_lanes_ = 0;
  std::size_t unknown_ = 0;
  std::size_t quotas_open_ = 0;
  std::vector<std::pair<JobId, BucketKey>> emptied_;
};

template <class Visit>
void WaitQueues::for_each_served(JobQueue& queue, const Sweep& sweep, Visit&& visit) {
  auto& buckets = queue.buckets;
  auto at = buckets.begin();
  if (at != buckets.end() && at->first.kind == BucketKey::Kind::unknown) visit(at->second);
  for (const auto& shares : sweep.shares) {
    if (shares.nodes.empty()) continue;
    const auto most = shares.nodes.back().first;
    at = buckets.lower_bound({.kind = BucketKey::Kind::amount, .resource = shares.number});
    for (; at != buckets.end() && at->first.kind == BucketKey::Kind::amount &&
           at->first.resource == shares.number && at->first.amount <= most;
         ++at) {
      visit(at->second);
    }
  }
  // Most queues have no other buckets.
  if (buckets.empty() || buckets.rbegin()->first.kind == BucketKey::Kind::amount) return;
  const auto each_of = [&](BucketKey::Kind kind, const auto& freed, auto lane_of) {
    auto bucket_key = buckets.lower_bound({.kind = kind});
    if (bucket_key == buckets.end() || bucket_key->first.kind != kind) return;
    for (const auto& each : freed) {
      const auto found = buckets.find(lane_of(each));
      if (found != buckets.end()) visit(found->second);
    }
  };
  each_of(BucketKey::Kind::node, sweep.nodes,
          [](NodeId node) { return BucketKey{.kind = BucketKey::Kind::node, .node = node}; });
  each_of(BucketKey::Kind::group, sweep.groups,
          [](GroupId group) { return BucketKey{.kind = BucketKey::Kind::group, .group = group}; });
  if (!queue.quota_open) return;
  at = buckets.find({.kind = BucketKey::Kind::quota});
  if (at != buckets.end()) visit(at->second);
}

}  // namespace mobula::internal::scheduler
