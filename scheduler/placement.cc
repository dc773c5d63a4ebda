#include "scheduler/placement.h"

#include <algorithm>

namespace mobula::internal::scheduler {
namespace {

// Number of nodes that are examined one by one before an index narrows them or a heap stores them.
constexpr std::size_t max_examined_nodes = 256;
constexpr std::size_t nodes_compared = 4;

}  // namespace

PlacementRound::PlacementRound(ClusterView& cluster, SlotAccounting& accounting,
                               PendingDemands& pending, const PlacementSettings& settings,
                               const Terms& terms)
    : cluster_(cluster),
      accounting_(accounting),
      pending_(pending),
      settings_(settings),
      terms_(terms),
      sweep_(pending.continue_sweep()),
      stamp_(cluster.last_stamp()),
      in_vain_(settings.examinations_per_free *
               std::max<std::int64_t>(1, static_cast<std::int64_t>(sweep_.nodes.size()))) {}

Node* PlacementRound::best_freed(const Choice& choice) {
  const auto& row = *choice.row;
  const auto& shape = *choice.shape;
  Node* best = nullptr;
  std::size_t seen = 0;
  const auto compare = [&](const Node& node) {
    ++node_checks_;
    if (cluster_.fits(node, shape) && (best == nullptr || rank(node, shape) < rank(*best, shape))) {
      best = cluster_.nodes().find(node.id);
    }
    return ++seen == nodes_compared;
  };
  if (const auto pinned = cluster_.pinned(shape)) {
    if (const auto* node = cluster_.nodes().find(*pinned)) compare(*node);
    return best;
  }
  const auto from = row.examined_through == 0 ? 0 : pending_.unexamined_from(row);
  const auto known = heaps_.find(choice.key());
  if (known != heaps_.end()) return known->second.best(cluster_, shape);
  if (!cluster_.any_freed_since(from, compare)) return best;
  auto& heap = heaps_[choice.key()];
  cluster_.any_freed_since(from, [&](const Node& node) {
    ++node_checks_;
    if (cluster_.fits(node, shape)) heap.add(node, shape);
    return false;
  });
  heap.seal();
  return heap.best(cluster_, shape);
}

std::optional<Node*> PlacementRound::best_of_tightest(const Choice& choice) {
  const auto& row = *choice.row;
  const auto& shape = *choice.shape;
  const auto& order = cluster_.free().nodes(row.scarcest.resource);
  Node* best = nullptr;
  std::size_t seen = 0;
  for (auto at = order.lower_bound({row.scarcest.amount, {}}); at != order.end(); ++at) {
    if (++seen > max_examined_nodes) return best != nullptr ? std::optional(best) : std::nullopt;
    ++node_checks_;
    auto* node = at->second;
    if (!cluster_.fits(*node, shape)) continue;
    if (best == nullptr || rank(*node, shape) < rank(*best, shape)) best = node;
  }
  return best;
}

Node* PlacementRound::best_of_all(const Choice& choice) {
  const auto& row = *choice.row;
  const auto& shape = *choice.shape;
  const auto& [resource, amount] = row.scarcest;
  if (!resource.empty()) {
    const auto& able = cluster_.free().nodes(resource);
    if (able.lower_bound({amount, {}}) == able.end()) return nullptr;
  }
  const auto& order = cluster_.order().ranks(shape.need.has_devices);
  auto& passed = passed_[choice.key()];
  std::size_t seen = 0;
  for (auto at = order.lower_bound(passed); at != order.end(); ++at) {
    // The best nodes are full. A fitting one may be rare or far down the order.
    if (++seen == max_examined_nodes && !resource.empty()) {
      if (const auto best = best_of_tightest(choice)) return *best;
    }
    ++node_checks_;
    auto* node = at->second;
    passed = at->first;
    if (cluster_.fits(*node, shape)) return node;
  }
  return nullptr;
}

PlacementTarget PlacementRound::place(PendingClass& of) {
  auto& row = *of.row;
  const auto& shape = row.shape;
  if (!shape.group.empty()) return cluster_.capacity_for(shape);
  if (const auto at = terms_.reserved.find(of.key); at != terms_.reserved.end()) {
    auto* node = cluster_.nodes().find(at->second);
    if (node != nullptr && cluster_.fits(*node, shape, &of.key)) return {node};
  }
  const auto* preference = of.first().preference.get();
  if (row.choices.empty()) return choose({&row, &shape, 0}, preference);
  // Uses the first selector with capacity now.
  for (std::size_t i = 0; i < row.choices.size(); ++i) {
    if (const auto target = choose({&row, &row.choices[i], i}, preference)) return target;
  }
  return {};
}

PlacementTarget PlacementRound::choose(const Choice& choice, const Preference* preference) {
  const auto& shape = *choice.shape;
  if (preference != nullptr) {
    if (auto* near = nearest(cluster_, shape, *preference)) return {near};
  }
  const bool in_order =
      choice.row->examined_through == 0 && !shape.spread && !cluster_.pinned(shape);
  auto* best = in_order ? best_of_all(choice) : best_freed(choice);
  return {preference == nullptr ? best : prefer_home(cluster_, shape, *preference, best)};
}

void PlacementRound::grant(PlacementTarget target, PendingClass& of) {
  auto& demand = of.first();
  const auto& key = *demand.key;
  Slot slot;
  slot.id = terms_.next_slot();
  slot.node = target.node->id;
  slot.job = key.job;
  slot.class_id = key.class_id;
  slot.lessee = key.lessee;
  slot.actor = key.actor;
  slot.spread = of.row->shape.spread;
  const bool was_freed = target.node->freed_at > sweep_.from;
  if (was_freed) sweep_.count(*target.node, -1);
  slot.allocation = cluster_.book(target, of.row->shape);
  if (was_freed) sweep_.count(*target.node, 1);
  auto& holder = accounting_.granted(slot, terms_.now, demand.holder);
  note_passing(slot, *target.node, of);
  pending_.got(demand, holder, terms_.now);
  granted_->push_back(std::move(slot));
}

// Records a pass, if an open reservation or an open quota of another class admitted the slot.
void PlacementRound::note_passing(const Slot& slot, Node& node, const PendingClass& of) {
  const auto pass = [&](ReservationGate& withheld, const ClassKey& owner) {
    if (!withheld.is_open() || owner == of.key) return;
    withheld.passed(terms_.now);
    accounting_.mark_passed(slot.id, true);
  };
  if (node.reservation) pass(node.reservation->withheld, node.reservation->owner);
  if (auto& quota = accounting_.job_row(of.key.first).withheld) pass(quota->withheld, quota->owner);
}

bool PlacementRound::is_allowed(const PendingClass& of) const {
  const auto job = of.key.first;
  const auto& quota = accounting_.terms(job).quota;
  if (quota.empty()) return true;
  if (accounting_.over_quota(job, of.row->most_held)) return false;
  const auto* first = pending_.quota_withheld_for(job, of.row->most_held, terms_.now,
                                                  settings_.quota_reserve_delay);
  return first == nullptr || first == &of || of.rank < first->rank;
}

bool PlacementRound::awaits_devices(const Node& node, const PendingClass& of) const {
  const auto& shape = of.row->shape;
  const auto is_part = [](const Need::Amount& each) {
    return each.device && each.amount < Quantity::whole(1);
  };
  return shape.group.empty() && std::ranges::any_of(shape.need.amounts, is_part) &&
         terms_.now < of.first().oldest_waiting + settings_.settle_delay &&
         terms_.ending.any_on(node.id);
}

PlacementRound::Outcome PlacementRound::examine(PendingClass& of) {
  if (!is_allowed(of)) {
    pending_.park(of);
    return Outcome::passed;
  }
  pending_.unpark(of);
  // Another class of the shape may have found that nothing fits, apart from the reservation of this
  // class.
  if (!pending_.may_fit(*of.row) && !terms_.reserved.contains(of.key)) return Outcome::passed;
  if (const auto target = place(of)) {
    if (awaits_devices(*target.node, of)) {
      pending_.examined(*of.row, stamp_);
      return Outcome::passed;
    }
    grant(target, of);
    return Outcome::granted;
  }
  const bool known_before = of.row->examined_through > 0;
  pending_.examined(*of.row, stamp_);
  return known_before ? Outcome::in_vain : Outcome::passed;
}

void PlacementRound::push_next(WaitQueues::Bucket& bucket) {
  const auto at =
      bucket.passed ? bucket.classes.upper_bound(*bucket.passed) : bucket.classes.begin();
  if (at == bucket.classes.end()) return;
  heads_.push_back({at->first, &bucket, at->second});
  std::push_heap(heads_.begin(), heads_.end());
}

bool PlacementRound::is_spent() const {
  return in_vain_ <= 0 || visits_ >= settings_.visits_per_plan ||
         node_checks_ >= settings_.node_checks_per_plan ||
         granted_->size() >= settings_.grants_per_plan;
}

PlacementRound::Outcome PlacementRound::go_along(WaitQueues::JobQueue& queue) {
  if (!WaitQueues::may_serve(queue, sweep_)) {
    pending_.queues().end(queue, sweep_);
    return Outcome::passed;
  }
  heads_.clear();
  WaitQueues::for_each_served(queue, sweep_, [&](WaitQueues::Bucket& bucket) {
    if (std::exchange(bucket.sweep, sweep_.number) != sweep_.number) bucket.passed.reset();
    push_next(bucket);
  });
  while (!heads_.empty()) {
    std::pop_heap(heads_.begin(), heads_.end());
    const auto next = heads_.back();
    heads_.pop_back();
    ++visits_;
    const auto outcome = examine(*next.of);
    next.bucket->passed = next.rank;
    if (outcome == Outcome::granted) return outcome;
    if (outcome == Outcome::in_vain) --in_vain_;
    if (is_spent()) return Outcome::in_vain;
    push_next(*next.bucket);
  }
  pending_.queues().end(queue, sweep_);
  return Outcome::passed;
}

bool PlacementRound::run(std::vector<Slot>& granted, std::optional<std::int32_t> above) {
  granted_ = &granted;
  auto& queues = pending_.queues();
  const bool nothing =
      !queues.may_serve_any(sweep_) || (sweep_.empty() && !queues.has_more_to_try());
  WaitQueues::Walk walk(queues);
  auto* queue = nothing ? nullptr : walk.at_or_after(JobTurn::first());
  while (queue != nullptr) {
    const auto turn = queue->turn;
    if (above && turn.minus_priority >= -std::int64_t{*above}) return false;
    const auto outcome = queue->ended_in == sweep_.number ? Outcome::passed : go_along(*queue);
    if (is_spent()) return true;
    // Its turn moved back, or its queue ended: queues before it have passed.
    if (outcome == Outcome::granted && !queues.may_serve_any(sweep_)) break;
    queue = outcome == Outcome::granted ? walk.at_or_after(turn) : walk.after(turn);
  }
  return !above && pending_.end_sweep();
}

}  // namespace mobula::internal::scheduler
