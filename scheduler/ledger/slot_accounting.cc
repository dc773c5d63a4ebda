#include "scheduler/ledger/slot_accounting.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace mobula::internal::scheduler {
namespace {

// Adds or subtracts the resources of a slot in the share of its job.
template <class Sums>
void count(Sums& sums, const Slot& slot, int sign) {
  if (!slot.allocation.group.empty()) return;  // its bundle counts
  for (const auto& each : slot.allocation.resources) {
    if (each.name.starts_with(resource::accelerator_prefix)) continue;
    if (slot.lent && each.name == resource::cpu) continue;
    for (const auto& share : each.shares)
      sums.add(each.name, sign > 0 ? share.amount : -share.amount);
  }
}

ResourceSet counted(const Slot& slot) {
  ResourceSet sums;
  count(sums, slot, 1);
  return sums;
}

void subtract(ResourceSet& from, const ResourceSet& amounts) {
  for (const auto& [name, amount] : amounts.amounts()) from.add(name, -amount);
}

// Returns true if the slot held a resource that the reservation waits for: not an abundant one,
// such as most CPUs, and not capacity in a bundle.
bool is_awaited(const Slot& slot, const Node& node) {
  if (!node.reservation || !slot.allocation.group.empty()) return false;
  return std::ranges::any_of(node.reservation->need.amounts, [&](const Need::Amount& wanted) {
    const bool lacks = wanted.device || node.ledger.in_instances(wanted.name) ||
                       node.ledger.available(wanted.name) < wanted.amount;
    return lacks && std::ranges::find(slot.allocation.resources, wanted.name,
                                      &ResourceShare::name) != slot.allocation.resources.end();
  });
}

// Returns true if the slot held quota that the reservation waits for.
bool is_awaited(const Slot& slot, const SlotAccounting::Job& job) {
  if (!job.withheld) return false;
  const auto held = counted(slot);
  return std::ranges::any_of(job.terms.quota, [&](const auto& each) {
    const auto& [name, quota] = each;
    return held.get(name) > Quantity() &&
           sum_or_most(job.held.get(name), job.withheld->wanted.get(name)) > quota;
  });
}

}  // namespace

HolderKey holder_of(const Slot& slot) { return {slot.lessee, slot.actor, slot.job, slot.class_id}; }

ClassKey class_of(const HolderKey& key) {
  return {key.job, key.actor.empty() ? key.class_id : ClassId::derived(key.class_id, "actor", 0)};
}

SlotAccounting::Job& SlotAccounting::job_row(JobId id) {
  if (auto* known = jobs_.find(id)) return *known;
  auto& job = *jobs_.insert(id, {}).first;
  job.sequence = ++sequence_;
  return job;
}

void SlotAccounting::set_terms(JobId id, const JobTerms& terms) {
  auto& job = job_row(id);
  job.terms = terms;
  job.ended = false;
  share_changed(id, job, true);
}

const JobTerms& SlotAccounting::terms(JobId id) const {
  static const JobTerms none;
  const auto* job = jobs_.find(id);
  return job == nullptr ? none : job->terms;
}

void SlotAccounting::set_all_known(bool known) {
  if (std::exchange(all_known_, known) || !known) return;
  for (auto& [id, job] : jobs_) share_changed(id, job, true);
}

std::optional<Reason> SlotAccounting::over_quota(JobId id, const ResourceSet& amounts,
                                                 bool alone) const {
  const auto* job = jobs_.find(id);
  if (job == nullptr) return std::nullopt;
  for (const auto& [name, quota] : job->terms.quota) {
    const auto wanted = amounts.get(name);
    const auto left = alone ? quota : std::max(quota - job->held.get(name), Quantity());
    if (wanted == Quantity()) continue;
    if (!all_known_ && !alone) return Reason{ReasonCode::recovering, name, {}, {}, {}};
    if (wanted <= left) continue;
    return Reason{ReasonCode::over_quota, name, wanted, left, quota.to_string()};
  }
  return std::nullopt;
}

std::int64_t SlotAccounting::slots_within_quota(JobId id, const ResourceSet& each,
                                                const ResourceSet& besides) const {
  auto slots = std::numeric_limits<std::int64_t>::max();
  const auto* job = jobs_.find(id);
  if (job == nullptr) return slots;
  for (const auto& [name, quota] : job->terms.quota) {
    const auto one = each.get(name);
    if (one == Quantity()) continue;
    const auto held = sum_or_most(job->held.get(name), besides.get(name));
    const auto left = all_known_ ? std::max(quota - held, Quantity()) : Quantity();
    slots = std::min(slots, left.units() / one.units());
  }
  return slots;
}

void SlotAccounting::share_changed(JobId id, Job& job, bool freed) {
  job.share_version = 0;
  job.quota_freed = job.quota_freed || (freed && !job.terms.quota.empty());
  if (std::exchange(job.share_changed, true)) return;
  changed_jobs_.push_back(id);
}

bool SlotAccounting::take_quota_freed(JobId id) {
  auto* job = jobs_.find(id);
  return job != nullptr && std::exchange(job->quota_freed, false);
}

std::vector<JobId> SlotAccounting::take_changed_jobs() {
  auto changed = std::exchange(changed_jobs_, {});
  for (const auto id : changed) {
    if (auto* job = jobs_.find(id)) job->share_changed = false;
  }
  return changed;
}

void SlotAccounting::end_job(JobId id) {
  auto* job = jobs_.find(id);
  if (job == nullptr) return;
  job->ended = true;
  if (job->slots == 0) jobs_.erase(id);
}

Holder& SlotAccounting::add(const Slot& slot, Time now, Holder* known) {
  auto& holder = known != nullptr ? *known : holders_[holder_of(slot)];
  ++holder.slots;
  auto& node = cluster_.nodes().at(slot.node);
  const auto sequence = ++sequence_;
  slots_.insert(slot.id,
                {slot, sequence, now, false, Ending::unasked, {}, false, false, &holder, &node});
  node.slots.push_back(slot.id);
  auto& job = job_row(slot.job);
  count(job.held, slot, 1);
  share_changed(slot.job, job, false);
  ++job.slots;
  if (slot.lent) ++job.lent_slots;
  if (tenant_of(slot) == Tenant::task) job.task_slots.insert(sequence, slot.id);
  if (!slot.allocation.group.empty()) in_group_[slot.allocation.group].insert(slot.id);
  if (slot.spread) ++node.spread_slots;
  if (!slot.bundle_of.empty()) {
    cluster_.add_bundle(slot.bundle_of, slot.bundle, node, slot.allocation);
  }
  cluster_.took(node);
  return holder;
}

bool SlotAccounting::restore(const Slot& slot) {
  auto* node = cluster_.nodes().find(slot.node);
  if (node == nullptr || slots_.contains(slot.id)) return false;
  if (!cluster_.restore(*node, slot.allocation, occupancy_of(slot))) return false;
  add(slot, {}, nullptr);
  return true;
}

bool SlotAccounting::release(SlotId id) {
  auto* found = slots_.find(id);
  if (found == nullptr) return false;
  const auto held = std::move(*found);
  slots_.erase(id);
  const auto& slot = held.slot;
  auto& node = *held.node;
  std::erase(node.slots, id);
  if (is_awaited(slot, node)) node.reservation->withheld.came_back(held.granted_at);
  auto& job = jobs_.at(slot.job);
  if (is_awaited(slot, job)) job.withheld->withheld.came_back(held.granted_at);
  if (slot.lent) --job.lent_slots;
  count(job.held, slot, -1);
  share_changed(slot.job, job, true);
  if (held.recalled) count(job.returning, slot, -1);
  if (tenant_of(slot) == Tenant::task) job.task_slots.erase(held.sequence);
  if (const auto at = in_group_.find(slot.allocation.group); at != in_group_.end()) {
    at->second.erase(id);
    if (at->second.empty()) in_group_.erase(at);
  }
  if (!slot.bundle_of.empty()) cluster_.remove_bundle(slot.bundle_of, slot.bundle);
  if (--job.slots == 0 && job.ended) jobs_.erase(slot.job);
  if (held.recalled) --held.holder->recalled;
  if (--held.holder->slots == 0 && held.holder->demand == nullptr) holders_.erase(holder_of(slot));
  cluster_.free(node, slot.allocation, occupancy_of(slot));
  if (slot.spread) --node.spread_slots;
  cluster_.freed(node);
  return true;
}

bool SlotAccounting::release_cpu(SlotId id) {
  auto* held = slots_.find(id);
  if (held == nullptr || held->slot.lent) return false;
  const auto before = counted(held->slot);
  held->slot.lent = true;
  auto lent = before;
  subtract(lent, counted(held->slot));
  auto& job = jobs_.at(held->slot.job);
  job.held.subtract(lent);
  ++job.lent_slots;
  share_changed(held->slot.job, job, true);
  if (held->recalled) job.returning.subtract(lent);
  auto& node = *held->node;
  cluster_.release_cpu(node, held->slot.allocation, tenant_of(held->slot));
  cluster_.freed(node);
  return true;
}

bool SlotAccounting::reacquire_cpu(SlotId id) {
  auto* held = slots_.find(id);
  if (held == nullptr || !held->slot.lent) return false;
  auto taken = counted(held->slot);
  held->slot.lent = false;
  auto back = counted(held->slot);
  subtract(back, taken);
  auto& job = jobs_.at(held->slot.job);
  job.held.add(back);
  --job.lent_slots;
  share_changed(held->slot.job, job, false);
  if (held->recalled) job.returning.add(back);
  auto& node = *held->node;
  cluster_.reacquire_cpu(node, held->slot.allocation, tenant_of(held->slot));
  cluster_.took(node);
  return true;
}

bool SlotAccounting::mark_recalled(SlotId id, Time now) {
  auto* held = slots_.find(id);
  if (held == nullptr || held->recalled) return false;
  held->recalled = true;
  held->recalled_at = now;
  jobs_.at(held->slot.job).returning.add(counted(held->slot));
  ++held->holder->recalled;
  return true;
}

bool SlotAccounting::mark_ending(SlotId id, Ending ending, Time now) {
  mark_recalled(id, now);
  auto* held = slots_.find(id);
  if (held == nullptr) return false;
  held->ending = ending;
  held->recalled_at = now;
  return true;
}

bool SlotAccounting::mark_answer(SlotId id, Ending answer) {
  auto* held = slots_.find(id);
  if (held == nullptr || held->ending == Ending::unasked) return false;
  // An order to end stays, whatever the reply to an earlier query.
  if (answer == Ending::refused || held->ending == Ending::requested) held->ending = answer;
  return true;
}

bool SlotAccounting::mark_passed(SlotId id, bool passed) {
  auto* held = slots_.find(id);
  return held != nullptr && std::exchange(held->passed, passed) != passed;
}

bool SlotAccounting::mark_resident(SlotId id, bool resident) {
  auto* held = slots_.find(id);
  return held != nullptr && std::exchange(held->resident, resident) != resident;
}

void SlotAccounting::rebook(Node& node) {
  node.spread_slots = 0;
  for (const auto id : node.slots) {
    // A bundle precedes the slots in it, in order of allocation.
    const auto& slot = slots_.at(id).slot;
    if (!slot.bundle_of.empty()) {
      cluster_.add_bundle(slot.bundle_of, slot.bundle, node, slot.allocation);
    }
    MOBULA_CHECK(cluster_.restore(node, slot.allocation, occupancy_of(slot)), "its bundle is here");
    if (slot.spread) ++node.spread_slots;
  }
  cluster_.took(node);
}

std::int64_t SlotAccounting::share_of(const Job& job, const ResourceSet& extra,
                                      bool lasting) const {
  std::int64_t most = 0;
  const auto consider = [&](const std::string& name, Quantity amount) {
    if (lasting) amount -= job.returning.get(name);
    most = std::max(most, millionths(amount, cluster_.totals().get(name)));
  };
  job.held.for_each([&](const std::string& name, Quantity amount) {
    consider(name, sum_or_most(amount, extra.get(name)));
  });
  for (const auto& [name, amount] : extra.amounts())
    consider(name, sum_or_most(job.held.get(name), amount));
  return most / job.terms.weight;
}

std::int64_t SlotAccounting::share(JobId id) {
  auto* job = jobs_.find(id);
  if (job == nullptr) return 0;
  if (std::exchange(job->share_version, cluster_.version()) != cluster_.version()) {
    job->share = share_of(*job, {}, false);
  }
  return job->share;
}

std::int64_t SlotAccounting::present_share(JobId id) const {
  const auto* job = jobs_.find(id);
  return job == nullptr ? 0 : share_of(*job, {}, false);
}

std::int64_t SlotAccounting::lasting_share(JobId id, const ResourceSet& extra) const {
  const auto* job = jobs_.find(id);
  return job != nullptr ? share_of(*job, extra, true) : share_of({}, extra, true);
}

std::int64_t SlotAccounting::share_without(JobId id, const ResourceSet& taken,
                                           const Allocation& allocation) const {
  const auto* job = jobs_.find(id);
  if (job == nullptr) return 0;
  std::int64_t most = 0;
  job->held.for_each([&](const std::string& name, Quantity amount) {
    auto left = amount - job->returning.get(name) - taken.get(name);
    for (const auto& resource : allocation.resources) {
      if (resource.name != name) continue;
      for (const auto& each : resource.shares) left -= each.amount;
    }
    most = std::max(most, millionths(left, cluster_.totals().get(name)));
  });
  return most / job->terms.weight;
}

Holder SlotAccounting::holder(const HolderKey& key) const {
  const auto* row = holders_.find(key);
  return row == nullptr ? Holder() : *row;
}

Holder* SlotAccounting::link(const HolderKey& key, Demand& demand) {
  auto* row = holders_.find(key);
  if (row != nullptr) row->demand = &demand;
  return row;
}

void SlotAccounting::unlink(const HolderKey& key) {
  auto* row = holders_.find(key);
  if (row == nullptr) return;
  row->demand = nullptr;
  if (row->slots == 0) holders_.erase(key);
}

std::vector<SlotId> SlotAccounting::slots_on(NodeId id) const {
  const auto* node = cluster_.nodes().find(id);
  return node == nullptr ? std::vector<SlotId>() : node->slots;
}

std::set<SlotId> SlotAccounting::slots_in(GroupId group) const {
  const auto at = in_group_.find(group);
  return at == in_group_.end() ? std::set<SlotId>() : at->second;
}

std::string SlotAccounting::verify() const {
  auto fresh = cluster_.emptied();
  SlotAccounting recount(fresh);
  for (const auto& [id, held] : slots_) {
    if (!recount.restore(held.slot)) {
      return fmt::format("slot {} is on no node or in no bundle", id.hex());
    }
    if (held.recalled) recount.mark_recalled(id, held.recalled_at);
  }
  for (const auto& [id, node] : cluster_.nodes()) {
    const auto& counted_node = fresh.nodes().at(id);
    if (!(counted_node.ledger == node.ledger)) {
      return fmt::format("the ledger of node {} differs from its slots", id.hex());
    }
    if (counted_node.score != node.score) {
      return fmt::format("node {} scores {}, its slots make {}", id.hex(), node.score,
                         counted_node.score);
    }
    if (counted_node.spread_slots != node.spread_slots) {
      return fmt::format("node {} counts {} spread slots, has {}", id.hex(), node.spread_slots,
                         counted_node.spread_slots);
    }
  }
  for (const auto& [id, held] : slots_) {
    const auto& slot = held.slot;
    const auto* capacity = cluster_.capacity(slot.bundle_of, slot.bundle);
    if (slot.bundle_of.empty()) continue;
    const auto* again = fresh.capacity(slot.bundle_of, slot.bundle);
    if (capacity == nullptr || !(capacity->ledger == again->ledger)) {
      return fmt::format("the ledger of bundle {} of group {} differs from its slots", slot.bundle,
                         slot.bundle_of.hex());
    }
  }
  for (const auto& [id, job] : jobs_) {
    const auto& again = recount.job_row(id);
    if (!(again.held == job.held && again.returning == job.returning)) {
      return fmt::format("job {} is booked with {}, its slots hold {}", id.hex(),
                         job.held.amounts().to_string(), again.held.amounts().to_string());
    }
    if (again.task_slots.size() != job.task_slots.size()) {
      return fmt::format("job {} lists {} task slots, has {}", id.hex(), job.task_slots.size(),
                         again.task_slots.size());
    }
  }
  for (const auto& [key, holder] : holders_) {
    const auto again = recount.holder(key);
    if (again.slots != holder.slots || again.recalled != holder.recalled) {
      return fmt::format("class {} of lessee {} counts {} slots, has {}", key.class_id.hex(),
                         key.lessee.hex(), holder.slots, again.slots);
    }
  }
  return {};
}

}  // namespace mobula::internal::scheduler
