#include "scheduler/placement.h"

#include <algorithm>

namespace mobula::internal::scheduler {

PlacementRound::PlacementRound(ClusterView& cluster, SlotBooks& books, PendingDemands& pending,
                               const PlacementSettings& settings)
    : cluster_(cluster),
      books_(books),
      pending_(pending),
      settings_(settings),
      stamp_(cluster.last_stamp()) {}

void PlacementRound::line_up(const ClassKey& key) {
  const auto& of = pending_.class_at(key);
  if (of.waiting.empty()) return;
  lines_[key.first].heads.emplace(
      Head{-std::int64_t{of.demand.request.priority}, of.waiting.begin()->first}, key);
}

void PlacementRound::queue(JobId job) {
  auto& line = lines_.at(job);
  if (line.heads.empty()) return;
  line.turn = {books_.share(job), line.heads.begin()->first.rank.since,
               books_.job_row(job).sequence};
  turns_.emplace(line.turn, job);
}

Node* PlacementRound::best_freed(AskNumber number) {
  const auto& row = pending_.ask_at(number);
  const auto found = heaps_.try_emplace(number);
  auto& heap = found.first->second;
  if (found.second) {
    const auto consider = [&](const Node& node) {
      ++node_checks_;
      if (cluster_.fits(node, row.ask)) heap.add(node, row.ask);
    };
    if (const auto pinned = cluster_.pinned(row.ask)) {
      if (const auto* node = cluster_.nodes().find(*pinned)) consider(*node);
    } else {
      cluster_.for_each_freed_since(row.examined_through, consider);
    }
    heap.seal();
  }
  return heap.best(cluster_, row.ask);
}

Node* PlacementRound::best_of_all(AskNumber number) {
  const auto& row = pending_.ask_at(number);
  const bool for_devices = row.ask.need.has_devices;
  const auto& order = cluster_.order().ranks(for_devices);
  auto& exhausted = exhausted_[{row.scarcest, for_devices}];
  const auto least = pending_.least_amount(row.scarcest);
  auto& passed = passed_[number];
  bool all_exhausted = exhausted >= passed;
  for (auto at = order.lower_bound(std::max(exhausted, passed)); at != order.end(); ++at) {
    ++node_checks_;
    auto* node = cluster_.nodes().find(at->node);
    const bool enough =
        row.scarcest.empty() || node->ledger.largest_share(row.scarcest) >= least;
    all_exhausted = all_exhausted && !enough;
    if (all_exhausted) exhausted = *at;
    passed = *at;
    if (enough && cluster_.fits(*node, row.ask)) return node;
  }
  return nullptr;
}

Spot PlacementRound::place(const ClassKey& key, const Demand& demand,
                           const std::map<ClassKey, NodeId>& reserved) {
  const auto number = pending_.class_at(key).ask;
  const auto& ask = pending_.ask_at(number).ask;
  if (!ask.group.empty()) return cluster_.room_for(ask);
  if (const auto at = reserved.find(key); at != reserved.end()) {
    auto* node = cluster_.nodes().find(at->second);
    if (node != nullptr && cluster_.fits(*node, ask, &key)) return {node};
  }
  if (auto* near = nearest(cluster_, ask, demand.preference)) return {near};
  const bool in_order = pending_.ask_at(number).examined_through == 0 && !ask.spread &&
                        !cluster_.pinned(ask);
  auto* best = in_order ? best_of_all(number) : best_freed(number);
  return {prefer_home(cluster_, ask, demand.preference, best)};
}

Slot PlacementRound::grant(Spot spot, Demand& demand, const Ask& ask, SlotId id, Time now) {
  const auto& key = demand.key;
  Slot slot;
  slot.id = id;
  slot.node = spot.node->id;
  slot.job = key.job;
  slot.class_id = key.class_id;
  slot.lessee = key.lessee;
  slot.actor = key.actor;
  slot.allocation = cluster_.book(spot, ask);
  slot.spread = ask.spread;
  books_.granted(slot, now);
  demand.last_served = now;
  demand.recall_from = now;
  pending_.refresh(key);
  return slot;
}

bool PlacementRound::run(Time now, const std::map<ClassKey, NodeId>& reserved,
                         const std::function<SlotId()>& next_slot, std::vector<Slot>& granted) {
  auto in_vain = settings_.examinations_per_free * std::max<std::int64_t>(1, pending_.open_freed());
  for (const auto number : pending_.next_open(settings_.asks_per_plan)) {
    for (const auto& key : pending_.ask_at(number).waiting) line_up(key);
  }
  for (const auto& [job, line] : lines_) queue(job);

  while (!turns_.empty()) {
    const auto job = turns_.begin()->second;
    turns_.erase(turns_.begin());
    auto& line = lines_.at(job);
    const auto key = line.heads.begin()->second;
    line.heads.erase(line.heads.begin());
    const auto& of = pending_.class_at(key);
    const auto number = of.ask;
    // Another class with the same ask may have found that nothing fits, its own reservation aside.
    if (pending_.still_open(number, stamp_) || reserved.contains(key)) {
      auto& demand = *pending_.find(of.waiting.begin()->second);
      auto& row = pending_.ask_at(number);
      if (const auto spot = place(key, demand, reserved)) {
        granted.push_back(grant(spot, demand, row.ask, next_slot(), now));
        line_up(key);
      } else {
        const bool known_before = row.examined_through > 0;
        pending_.close(number, stamp_);
        if (known_before && --in_vain <= 0) return !pending_.open().empty();
      }
      if (node_checks_ > settings_.node_checks_per_plan) return !pending_.open().empty();
    }
    queue(job);
  }
  return !pending_.open().empty();
}

}  // namespace mobula::internal::scheduler
