#include "scheduler/queues/wait_queues.h"

#include <algorithm>

namespace mobula::internal::scheduler {

Lane Lane::of(const AskRow& row) {
  if (row.examined_through == 0) return {};
  if (!row.ask.group.empty()) return {.kind = Kind::group, .group = row.ask.group};
  if (row.is_pinned()) return {.kind = Kind::node, .node = *row.ask.wanted_node};
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

WaitQueues::Bucket& WaitQueues::enter(JobId job, const Lane& lane, const LineRank& rank,
                                      PendingClass& of) {
  auto& line = lines_.try_emplace(job, Line{.job = job}).first->second;
  const auto [at, added] = line.buckets.try_emplace(lane, Bucket{.line = &line});
  auto& bucket = at->second;
  if (added) {
    bucket.lane = &at->first;
    lane_added(line, lane);
  }
  bucket.classes.insert(rank, &of);
  if (lane.kind == Lane::Kind::unknown) ++unknown_;
  if (bucket.passed && rank <= *bucket.passed) bucket.passed.reset();
  line.ended_in = 0;
  ++line.classes;
  const auto since = rank.rank.since;
  update_turn(line, std::max(line.served, line.in_turn ? std::min(line.turn.since, since) : since));
  return bucket;
}

void WaitQueues::lane_added(Line& line, const Lane& lane) {
  if (lane.kind != Lane::Kind::amount) {
    ++line.other_lanes;
    ++other_lanes_;
    return;
  }
  ++resources_[lane.resource][lane.amount];
  const auto at = std::ranges::lower_bound(line.least, lane.resource, {},
                                           &std::pair<std::uint32_t, Quantity>::first);
  if (at == line.least.end() || at->first != lane.resource) {
    line.least.insert(at, {lane.resource, lane.amount});
  } else {
    at->second = std::min(at->second, lane.amount);
  }
}

void WaitQueues::lane_removed(Line& line, const Lane& lane) {
  if (lane.kind != Lane::Kind::amount) {
    --line.other_lanes;
    --other_lanes_;
    return;
  }
  const auto amounts = resources_.find(lane.resource);
  const auto count = amounts->second.find(lane.amount);
  if (--count->second == 0) amounts->second.erase(count);
  if (amounts->second.empty()) resources_.erase(amounts);
  const auto least =
      std::ranges::find(line.least, lane.resource, &std::pair<std::uint32_t, Quantity>::first);
  const auto first =
      line.buckets.lower_bound({.kind = Lane::Kind::amount, .resource = lane.resource});
  const bool left = first != line.buckets.end() && first->first.kind == Lane::Kind::amount &&
                    first->first.resource == lane.resource;
  if (left) {
    least->second = first->first.amount;
  } else {
    line.least.erase(least);
  }
}

bool WaitQueues::may_serve(const Line& line, const Sweep& sweep) {
  if (line.other_lanes > 0) return true;
  return std::ranges::any_of(sweep.shares, [&](const Sweep::Shares& shares) {
    if (shares.nodes.empty()) return false;
    const auto most = shares.nodes.back().first;
    return std::ranges::any_of(line.least, [&](const auto& each) {
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

void WaitQueues::leave(Bucket& bucket, const LineRank& rank) {
  auto& line = *bucket.line;
  bucket.classes.erase(rank);
  if (bucket.lane->kind == Lane::Kind::unknown) --unknown_;
  if (bucket.classes.empty()) emptied_.emplace_back(line.job, *bucket.lane);
  if (--line.classes == 0) update_turn(line, line.turn.since);
}

void WaitQueues::move(Bucket& bucket, const LineRank& from, const LineRank& to) {
  bucket.classes.move(from, to);
  auto& line = *bucket.line;
  if (to > from) return;
  if (bucket.passed && to <= *bucket.passed) bucket.passed.reset();
  line.ended_in = 0;
  if (to.rank.since < line.turn.since) {
    update_turn(line, std::max(line.served, to.rank.since));
  }
}

void WaitQueues::served(JobId job, Time now) {
  const auto at = lines_.find(job);
  if (at == lines_.end()) return;
  at->second.served = now;
  update_turn(at->second, now);
}

void WaitQueues::update_turn(Line& line, Time since) {
  const auto& job = books_.job_row(line.job);
  const JobTurn turn{-std::int64_t{job.terms.priority}, books_.share(line.job), since,
                     job.sequence};
  const bool waits = line.classes > 0;
  if (line.in_turn && waits && turn == line.turn) return;
  ++turn_changes_;
  if (line.in_turn && waits) {
    turns_.move(line.turn, turn);
  } else if (line.in_turn) {
    turns_.erase(line.turn);
  } else if (waits) {
    turns_.insert(turn, &line);
  }
  line.turn = turn;
  line.in_turn = waits;
}

void WaitQueues::update_turns(bool all) {
  for (auto& [job, line] : lines_) {
    if (!all) break;
    update_turn(line, line.turn.since);
  }
  const auto changed = books_.take_changed_jobs();
  for (const auto job : changed) {
    const auto at = lines_.find(job);
    if (at == lines_.end()) continue;
    update_turn(at->second, at->second.turn.since);
    if (books_.take_quota_freed(job)) open_quota(at->second);
  }
}

void WaitQueues::open_quota(Line& line) {
  const auto lane = line.buckets.find({.kind = Lane::Kind::quota});
  if (lane == line.buckets.end()) return;
  lane->second.passed.reset();
  line.ended_in = 0;
  if (!std::exchange(line.quota_open, true)) ++quotas_open_;
}

PendingClass* WaitQueues::first_for_quota(JobId job) const {
  const auto line = lines_.find(job);
  if (line == lines_.end()) return nullptr;
  const auto lane = line->second.buckets.find({.kind = Lane::Kind::quota});
  if (lane == line->second.buckets.end() || lane->second.classes.empty()) return nullptr;
  return lane->second.classes.begin()->second;
}

void WaitQueues::end(Line& line, const Sweep& sweep) {
  line.ended_in = sweep.number;
  if (std::exchange(line.quota_open, false)) --quotas_open_;
}

void WaitQueues::prune() {
  for (const auto& [job, lane] : std::exchange(emptied_, {})) {
    const auto line = lines_.find(job);
    if (line == lines_.end()) continue;
    auto& buckets = line->second.buckets;
    const auto bucket = buckets.find(lane);
    if (bucket != buckets.end() && bucket->second.classes.empty()) {
      buckets.erase(bucket);
      lane_removed(line->second, lane);
    }
    if (!buckets.empty()) continue;
    if (line->second.quota_open) --quotas_open_;
    lines_.erase(line);
  }
}

WaitQueues::Line* WaitQueues::Walk::at_or_after(const JobTurn& turn) {
  at_ = lines_.turns_.lower_bound(turn);
  seen_changes_ = lines_.turn_changes_;
  return found();
}

WaitQueues::Line* WaitQueues::Walk::after(const JobTurn& turn) {
  if (std::exchange(seen_changes_, lines_.turn_changes_) == lines_.turn_changes_) {
    ++at_;
  } else {
    at_ = lines_.turns_.upper_bound(turn);
  }
  return found();
}

}  // namespace mobula::internal::scheduler
