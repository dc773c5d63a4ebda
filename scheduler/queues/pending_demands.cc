#include "scheduler/queues/pending_demands.h"

#include <algorithm>

#include "base/model/jobs/start_identity.h"

namespace mobula::internal::scheduler {

// Demands of one class wait apart if different nodes have to be reached from their lessees' nodes.
PendingClass& PendingDemands::class_for(const HolderKey& key, const DemandClass& demand_class,
                                        const std::vector<NodeId>& cut_off) {
  ClassKey class_key = class_of(key);
  for (const NodeId caller : cut_off) {
    class_key.second = ClassId(derive_bits(class_key.second.bits(), caller.hex(), 0));
  }
  auto [at, first] = classes_.try_emplace(class_key);
  auto& of = at->second;
  if (first) {
    const auto tenant = key.actor.empty() ? Tenant::task : Tenant::actor;
    of.key = class_key;
    of.demand = demand_class;
    of.sequence = ++sequence_;
    of.row = &shapes_.join(demand_class.request,
                           start_identity(demand_class.program, demand_class.env), tenant, cut_off);
  }
  return of;
}

std::vector<NodeId> PendingDemands::cut_off(const Demand& demand) const {
  return demand.preference == nullptr ? std::vector<NodeId>()
                                      : cluster_.cut_off(demand.preference->callers);
}

ClassKey PendingDemands::class_key(const HolderKey& key) const {
  const auto at = demands_.find(key);
  return at == demands_.end() ? class_of(key) : at->second.of->key;
}

void PendingDemands::join_class(Demand& demand, const std::vector<NodeId>& cut_off) {
  if (demand.waiting) stop_waiting(demand);
  auto& before = *demand.of;
  demand.of = &class_for(*demand.key, before.demand, cut_off);
  demand.of->members.insert(demand.rank.sequence, &demand);
  leave_class(before, demand);
  demand.reported = false;
  refresh(demand);
}

void PendingDemands::links_changed(NodeId node) {
  const std::set<HolderKey> keys = by_caller_.of(node);
  walked_ += keys.size();
  for (const auto& key : keys) {
    Demand& demand = demands_.at(key);
    if (auto callers = cut_off(demand); callers != demand.of->row->shape.callers)
      join_class(demand, callers);
  }
}

void PendingDemands::leave_class(PendingClass& of, const Demand& demand) {
  of.members.erase(demand.rank.sequence);
  if (!of.members.empty()) return;
  unchecked_.erase({of.row->number, of.key});
  shapes_.leave(*of.row);
  classes_.erase(ClassKey(of.key));
}

void PendingDemands::set(const HolderKey& key, const DemandClass& demand_class, std::int64_t wanted,
                         Time oldest_waiting, const Preference& preference) {
  if (wanted <= 0) {
    erase(key);
    return;
  }
  auto [at, added] = demands_.try_emplace(key);
  auto& row = at->second;
  if (added) {
    row.key = &at->first;
    row.of = &class_for(key, demand_class, cluster_.cut_off(preference.callers));
    row.holder = accounting_.link(key, row);
    row.rank.sequence = ++sequence_;
    row.of->members.insert(row.rank.sequence, &row);
  }
  set_preference(row, preference);
  row.wanted = wanted;
  row.oldest_waiting = oldest_waiting;
  if (auto callers = cut_off(row); callers != row.of->row->shape.callers) join_class(row, callers);
  refresh(row);
}

void PendingDemands::set_preference(Demand& demand, const Preference& preference) {
  const bool same_callers = demand.preference == nullptr
                                ? preference.callers.empty()
                                : demand.preference->callers == preference.callers;
  if (!same_callers) index_callers(demand, false);
  const bool none =
      preference.locality.empty() && preference.home.empty() && preference.callers.empty();
  demand.preference = none ? nullptr : std::make_unique<const Preference>(preference);
  if (!same_callers) index_callers(demand, true);
}

void PendingDemands::index_callers(const Demand& demand, bool listed) {
  if (demand.preference == nullptr) return;
  for (const NodeId node : demand.preference->callers) {
    if (listed) {
      by_caller_.add(node, *demand.key);
    } else {
      by_caller_.remove(node, *demand.key);
    }
  }
}

void PendingDemands::erase(const HolderKey& key) {
  const auto at = demands_.find(key);
  if (at == demands_.end()) return;
  auto& of = *at->second.of;
  if (at->second.waiting) stop_waiting(at->second);
  if (at->second.holder != nullptr) accounting_.unlink(key);
  if (at->second.gave_back) std::erase(gave_back_, &at->second);
  index_callers(at->second, false);
  leave_class(of, at->second);
  demands_.erase(at);
}

void PendingDemands::erase_lessee(ProcessId lessee) {
  std::vector<HolderKey> keys;
  for (auto at = demands_.lower_bound({lessee, {}, {}, {}});
       at != demands_.end() && at->first.lessee == lessee; ++at) {
    if (at->first.actor.empty()) keys.push_back(at->first);
  }
  for (const auto& key : keys) erase(key);
}

void PendingDemands::erase_job(JobId job) {
  std::vector<HolderKey> keys;
  for (auto at = classes_.lower_bound({job, {}}); at != classes_.end() && at->first.first == job;
       ++at) {
    for (const auto& [sequence, demand] : at->second.members) keys.push_back(*demand->key);
  }
  walked_ += keys.size();
  for (const auto& key : keys) erase(key);
}

void PendingDemands::refresh(const HolderKey& key) {
  const auto at = demands_.find(key);
  if (at == demands_.end()) return;
  if (at->second.holder == nullptr) at->second.holder = accounting_.link(key, at->second);
  refresh(at->second);
}

void PendingDemands::refresh(Demand& demand) {
  const auto held = demand.holder == nullptr ? 0 : demand.holder->slots;
  const DemandRank rank{held, std::max(demand.oldest_waiting, demand.last_served),
                        demand.rank.sequence};
  const bool waits = demand.wanted > held;
  if (waits == demand.waiting && (!waits || rank == demand.rank)) return;
  auto& waiting = demand.of->waiting;
  if (waits && demand.waiting) {
    waiting.move(demand.rank, rank);
  } else if (waits) {
    waiting.insert(rank, &demand);
    demand.of->unreported.insert(rank.sequence, &demand);
  } else {
    waiting.erase(demand.rank);
    if (!std::exchange(demand.reported, false)) demand.of->unreported.erase(rank.sequence);
  }
  demand.rank = rank;
  demand.waiting = waits;
  if (waits && !demand.reported &&
      (!shapes_.is_known_feasible(*demand.of->row) || never_allowed(*demand.of))) {
    unchecked_.emplace(demand.of->row->number, demand.of->key);
  }
  line_up(*demand.of);
}

void PendingDemands::stop_waiting(Demand& demand) {
  demand.waiting = false;
  demand.of->waiting.erase(demand.rank);
  if (!demand.reported) demand.of->unreported.erase(demand.rank.sequence);
  line_up(*demand.of);
}

void PendingDemands::line_up(PendingClass& of) {
  const bool waited = of.bucket != nullptr;
  if (of.waiting.empty()) {
    if (!waited) return;
    leave_lane(of);
    by_age_.erase({of.age_key, of.sequence});
    shapes_.waits_no_more(*of.row, of.key);
    return;
  }
  const JobQueueRank rank{-std::int64_t{of.demand.request.priority}, of.waiting.begin()->first};
  const auto since = rank.rank.since;
  if (waited && rank == of.rank) return;
  if (waited) {
    queues_.move(*of.bucket, of.rank, rank);
    if (since < of.age_key) set_age(of, since);
  } else {
    shapes_.waits(*of.row, of.key);
    shapes_.enters_line(*of.row);
    of.rank = rank;
    enter_bucket(of, BucketKey::of(*of.row));
    of.age_key = since;
    by_age_.emplace(std::pair(since, of.sequence), &of);
    oldest_new_ = std::min(oldest_new_.value_or(since), since);
  }
  of.rank = rank;
}

PendingDemands::ByAge::iterator PendingDemands::set_age(PendingClass& of, Time since) {
  auto moved = by_age_.extract({of.age_key, of.sequence});
  moved.key().first = of.age_key = since;
  return by_age_.insert(std::move(moved)).position;
}

void PendingDemands::enter_bucket(PendingClass& of, const BucketKey& bucket_key) {
  of.bucket = &queues_.enter(of.key.first, bucket_key, of.rank, of);
}

void PendingDemands::leave_lane(PendingClass& of) {
  if (!of.is_parked()) shapes_.leaves_line(*of.row);
  queues_.leave(*std::exchange(of.bucket, nullptr), of.rank);
}

void PendingDemands::move_to_lane(ShapeRow& row) {
  const auto bucket_key = BucketKey::of(row);
  for (const auto& key : row.waiting) {
    auto& of = classes_.at(key);
    if (of.is_parked()) continue;
    queues_.leave(*of.bucket, of.rank);
    enter_bucket(of, bucket_key);
  }
}

void PendingDemands::park(PendingClass& of) {
  if (of.is_parked()) return;
  leave_lane(of);
  enter_bucket(of, {.kind = BucketKey::Kind::quota});
}

void PendingDemands::heed_quota(PendingClass& of) {
  if (!of.is_parked() && accounting_.over_quota(of.key.first, of.row->most_held)) park(of);
}

void PendingDemands::unpark(PendingClass& of) {
  if (!of.is_parked()) return;
  leave_lane(of);
  shapes_.enters_line(*of.row);
  enter_bucket(of, BucketKey::of(*of.row));
}

void PendingDemands::got(Demand& demand, Holder& holder, Time now) {
  demand.holder = &holder;
  holder.demand = &demand;
  demand.last_served = now;
  demand.recall_from = now;
  refresh(demand);
  queues_.served(demand.key->job, now);
}

void PendingDemands::gave_back(JobId job, Demand* demand) {
  jobs_gave_back_.insert(job);
  if (demand == nullptr || std::exchange(demand->gave_back, true)) return;
  gave_back_.push_back(demand);
}

void PendingDemands::note_returns(Time now) {
  for (auto* demand : std::exchange(gave_back_, {})) {
    demand->gave_back = false;
    demand->last_served = now;
    refresh(*demand);
  }
  for (const auto job : std::exchange(jobs_gave_back_, {})) queues_.served(job, now);
}

const PendingClass* PendingDemands::waiting_class(const ClassKey& key) const {
  const auto at = classes_.find(key);
  return at == classes_.end() || at->second.waiting.empty() ? nullptr : &at->second;
}

PendingClass* PendingDemands::waiting_class(const ClassKey& key) {
  return const_cast<PendingClass*>(std::as_const(*this).waiting_class(key));
}

Sweep& PendingDemands::continue_sweep() {
  const bool changed = std::exchange(lines_version_, cluster_.version()) != cluster_.version();
  queues_.update_turns(changed);
  // The node of a soft affinity may have left; then every other node counts.
  if (changed) {
    shapes_.for_each_soft([&](ShapeRow& row) {
      row.examined_through = 0;
      move_to_lane(row);
    });
  }
  queues_.prune();
  if (!sweeping_) {
    sweeping_ = true;
    ++sweep_.number;
    sweep_.from = sweep_.through;
    sweep_.through = cluster_.last_stamp();
    sweep_.groups = cluster_.take_freed_groups();
    for (const auto group : sweep_.groups) {
      for (const auto number : shapes_.of_group(group)) check_classes(*shapes_.find(number));
    }
  }
  sweep_.nodes.clear();
  sweep_.shares.resize(queues_.resources().size());  // keeps its allocations
  auto shares = sweep_.shares.begin();
  for (const auto& [number, lanes] : queues_.resources()) {
    shares->number = number;
    shares->resource = shapes_.resource_name(number);
    shares->nodes.clear();
    ++shares;
  }
  cluster_.any_freed_since(sweep_.from, [&](const Node& node) {
    if (node.state != NodeState::alive) return false;
    sweep_.nodes.push_back(node.id);
    sweep_.count(node, 1);
    return false;
  });
  return sweep_;
}

bool PendingDemands::end_sweep() {
  sweeping_ = false;
  return cluster_.last_stamp() > sweep_.through || cluster_.has_freed_groups();
}

bool PendingDemands::may_fit(const ShapeRow& row) const {
  if (row.examined_through == 0) return true;
  if (!row.shape.group.empty()) return row.examined_in != sweep_.number;
  return cluster_.any_freed_since(unexamined_from(row), [&](const Node& node) {
    return node.ledger.largest_share(row.scarcest.resource) >= row.scarcest.amount;
  });
}

void PendingDemands::examined(ShapeRow& row, std::uint64_t stamp) {
  const bool was_unknown = row.examined_through == 0;
  row.examined_through = stamp;
  row.examined_in = sweep_.number;
  if (was_unknown) move_to_lane(row);
}

const PendingClass* PendingDemands::quota_withheld_for(JobId id, const ResourceSet& most, Time now,
                                                       Duration after) const {
  const auto* first = queues_.first_for_quota(id);
  if (first == nullptr || now - first->rank.rank.since < after) return nullptr;
  const auto& job = accounting_.jobs().at(id);
  if (job.withheld && job.withheld->owner == first->key && job.withheld->withheld.is_open())
    return nullptr;
  const bool rivals = std::ranges::any_of(job.terms.quota, [&](const auto& each) {
    return first->row->most_held.get(each.first) > Quantity() && most.get(each.first) > Quantity();
  });
  return rivals ? first : nullptr;
}

void PendingDemands::check_classes(const ShapeRow& row) {
  for (const auto& key : row.waiting) unchecked_.emplace(row.number, key);
}

std::vector<HolderKey> PendingDemands::take_infeasible() {
  const bool nodes_changed = checked_version_ != cluster_.version();
  if (nodes_changed) {
    checked_version_ = cluster_.version();
    for (const auto& [number, row] : shapes_.rows()) check_classes(row);
  }
  std::vector<HolderKey> found;
  const auto report = [&](const auto& demands) {
    walked_ += demands.size();
    for (const auto& [position, demand] : demands) {
      demand->reported = true;
      found.push_back(*demand->key);
    }
  };
  walked_ += unchecked_.size();
  for (const auto& [number, class_key] : std::exchange(unchecked_, {})) {
    auto& of = classes_.at(class_key);
    if (of.waiting.empty() || (feasible(*of.row) && !never_allowed(of))) continue;
    if (nodes_changed) {
      report(of.waiting);
    } else {
      report(of.unreported);
    }
    of.unreported = {};
  }
  return found;
}

}  // namespace mobula::internal::scheduler
