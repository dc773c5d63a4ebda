#include "scheduler/queues/wait_queues.h"

#include <algorithm>

namespace mobula::internal::scheduler {

BucketKey BucketKey::of(const ShapeRow& row) {
  if (row.examined_through == 0) return {};
  if (!row.shape.group.empty()) return {.kind = Kind::group, .group = row.shape.group};
  if (row.is_pinned()) return {.kind = Kind::node, .node = *row.shape.wanted_node};
  return {.kind = Kind::amount, .resource = row.resource, .amount = row.scarcest.amount};
}

void Sweep::count(const Node& node, std::int64_t change) {
  for (auto& of : shares) {
    const auto share = node.ledger.largest_share(of.resource);
    auto at =
        std::ranges::lower_bound(of.nodes, share, {}, &std::pair<Quantity, std::int64_t>::first);
    if (at == of.nodes.end() || at->first != share) at = of.nodes.insert(at, {share, 0});
    at->second += change;
    if (at->second == 0) of.nodes.erase(at);
  }
}

WaitQueues::Bucket& WaitQueues::enter(JobId job, const BucketKey& bucket_key,
                                      const JobQueueRank& rank, PendingClass& of) {
  auto& queue = queues_.try_emplace(job, JobQueue{.job = job}).first->second;
  const auto [at, added] = queue.buckets.try_emplace(bucket_key, Bucket{.queue = &queue});
  auto& bucket = at->second;
  if (added) {
    bucket.bucket_key = &at->first;
    bucket_added(queue, bucket_key);
  }
  bucket.classes.insert(rank, &of);
  if (bucket_key.kind == BucketKey::Kind::unknown) ++unknown_;
  if (bucket.passed && rank <= *bucket.passed) bucket.passed.reset();
  queue.ended_in = 0;
  ++queue.classes;
  const auto since = rank.rank.since;
  update_turn(queue,
              std::max(queue.served, queue.in_turn ? std::min(queue.turn.since, since) : since));
  return bucket;
}

void WaitQueues::bucket_added(JobQueue& queue, const BucketKey& bucket_key) {
  if (bucket_key.kind != BucketKey::Kind::amount) {
    ++queue.other_lanes;
    ++other_lanes_;
    return;
  }
  ++resources_[bucket_key.resource][bucket_key.amount];
  const auto at = std::ranges::lower_bound(queue.least, bucket_key.resource, {},
                                           &std::pair<std::uint32_t, Quantity>::first);
  if (at == queue.least.end() || at->first != bucket_key.resource) {
    queue.least.insert(at, {bucket_key.resource, bucket_key.amount});
  } else {
    at->second = std::min(at->second, bucket_key.amount);
  }
}

void WaitQueues::bucket_removed(JobQueue& queue, const BucketKey& bucket_key) {
  if (bucket_key.kind != BucketKey::Kind::amount) {
    --queue.other_lanes;
    --other_lanes_;
    return;
  }
  const auto amounts = resources_.find(bucket_key.resource);
  const auto count = amounts->second.find(bucket_key.amount);
  if (--count->second == 0) amounts->second.erase(count);
  if (amounts->second.empty()) resources_.erase(amounts);
  const auto least = std::ranges::find(queue.least, bucket_key.resource,
                                       &std::pair<std::uint32_t, Quantity>::first);
  const auto first =
      queue.buckets.lower_bound({.kind = BucketKey::Kind::amount, .resource = bucket_key.resource});
  const bool left = first != queue.buckets.end() && first->first.kind == BucketKey::Kind::amount &&
                    first->first.resource == bucket_key.resource;
  if (left) {
    least->second = first->first.amount;
  } else {
    queue.least.erase(least);
  }
}

bool WaitQueues::may_serve(const JobQueue& queue, const Sweep& sweep) {
  if (queue.other_lanes > 0) return true;
  return std::ranges::any_of(sweep.shares, [&](const Sweep::Shares& shares) {
    if (shares.nodes.empty()) return false;
    const auto most = shares.nodes.back().first;
    return std::ranges::any_of(queue.least, [&](const auto& each) {
      return each.first == shares.number && each.second <= most;
    });
  });
}

bool WaitQueues::may_serve_any(const Sweep& sweep) const {
  if (other_lanes_ > 0) return true;
  return std::ranges::any_of(sweep.shares, [&](const Sweep::Shares& shares) {
    const auto amounts = resources_.find(shares.number);
    return amounts != resources_.end() && !shares.nodes.empty() &&
           amounts->second.begin()->first <= shares.nodes.back().first;
  });
}

void WaitQueues::leave(Bucket& bucket, const JobQueueRank& rank) {
  auto& queue = *bucket.queue;
  bucket.classes.erase(rank);
  if (bucket.bucket_key->kind == BucketKey::Kind::unknown) --unknown_;
  if (bucket.classes.empty()) emptied_.emplace_back(queue.job, *bucket.bucket_key);
  if (--queue.classes == 0) update_turn(queue, queue.turn.since);
}

void WaitQueues::move(Bucket& bucket, const JobQueueRank& from, const JobQueueRank& to) {
  bucket.classes.move(from, to);
  auto& queue = *bucket.queue;
  if (to > from) return;
  if (bucket.passed && to <= *bucket.passed) bucket.passed.reset();
  queue.ended_in = 0;
  if (to.rank.since < queue.turn.since) {
    update_turn(queue, std::max(queue.served, to.rank.since));
  }
}

void WaitQueues::served(JobId job, Time now) {
  const auto at = queues_.find(job);
  if (at == queues_.end()) return;
  at->second.served = now;
  update_turn(at->second, now);
}

void WaitQueues::update_turn(JobQueue& queue, Time since) {
  const auto& job = accounting_.job_row(queue.job);
  const JobTurn turn{-std::int64_t{job.terms.priority}, accounting_.share(queue.job), since,
                     job.sequence};
  const bool waits = queue.classes > 0;
  if (queue.in_turn && waits && turn == queue.turn) return;
  ++turn_changes_;
  if (queue.in_turn && waits) {
    turns_.move(queue.turn, turn);
  } else if (queue.in_turn) {
    turns_.erase(queue.turn);
  } else if (waits) {
    turns_.insert(turn, &queue);
  }
  queue.turn = turn;
  queue.in_turn = waits;
}

void WaitQueues::update_turns(bool all) {
  for (auto& [job, queue] : queues_) {
    if (!all) break;
    update_turn(queue, queue.turn.since);
  }
  const auto changed = accounting_.take_changed_jobs();
  for (const auto job : changed) {
    const auto at = queues_.find(job);
    if (at == queues_.end()) continue;
    update_turn(at->second, at->second.turn.since);
    if (accounting_.take_quota_freed(job)) open_quota(at->second);
  }
}

void WaitQueues::open_quota(JobQueue& queue) {
  const auto bucket_key = queue.buckets.find({.kind = BucketKey::Kind::quota});
  if (bucket_key == queue.buckets.end()) return;
  bucket_key->second.passed.reset();
  queue.ended_in = 0;
  if (!std::exchange(queue.quota_open, true)) ++quotas_open_;
}

PendingClass* WaitQueues::first_for_quota(JobId job) const {
  const auto queue = queues_.find(job);
  if (queue == queues_.end()) return nullptr;
  const auto bucket_key = queue->second.buckets.find({.kind = BucketKey::Kind::quota});
  if (bucket_key == queue->second.buckets.end() || bucket_key->second.classes.empty())
    return nullptr;
  return bucket_key->second.classes.begin()->second;
}

void WaitQueues::end(JobQueue& queue, const Sweep& sweep) {
  queue.ended_in = sweep.number;
  if (std::exchange(queue.quota_open, false)) --quotas_open_;
}

void WaitQueues::prune() {
  for (const auto& [job, bucket_key] : std::exchange(emptied_, {})) {
    const auto queue = queues_.find(job);
    if (queue == queues_.end()) continue;
    auto& buckets = queue->second.buckets;
    const auto bucket = buckets.find(bucket_key);
    if (bucket != buckets.end() && bucket->second.classes.empty()) {
      buckets.erase(bucket);
      bucket_removed(queue->second, bucket_key);
    }
    if (!buckets.empty()) continue;
    if (queue->second.quota_open) --quotas_open_;
    queues_.erase(queue);
  }
}

WaitQueues::JobQueue* WaitQueues::Walk::at_or_after(const JobTurn& turn) {
  at_ = queues_.turns_.lower_bound(turn);
  seen_changes_ = queues_.turn_changes_;
  return found();
}

WaitQueues::JobQueue* WaitQueues::Walk::after(const JobTurn& turn) {
  if (std::exchange(seen_changes_, queues_.turn_changes_) == queues_.turn_changes_) {
    ++at_;
  } else {
    at_ = queues_.turns_.upper_bound(turn);
  }
  return found();
}

}  // namespace mobula::internal::scheduler
