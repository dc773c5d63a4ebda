#include "scheduler/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/model/jobs/start_identity.h"

namespace mobula::internal::scheduler {
namespace {

HolderKey actor_key(ActorId actor, const DemandClass& demand) {
  return {{}, actor, demand.job, demand.id};
}

// Any actor of the class represents it.
ClassKey key_of(const DemandClass& demand, Tenant tenant) {
  return class_of(
      {{}, tenant == Tenant::actor ? ActorId::of(1) : ActorId(), demand.job, demand.id});
}

void add_use(Use& use, const std::string& name, Quantity total, Quantity available) {
  auto& row = use[name];
  row.total = sum_or_most(row.total, total);
  row.available = sum_or_most(row.available, std::max(available, Quantity()));
}

Use use_of(const InstanceLedger& ledger) {
  Use use;
  for (const auto& name : ledger.names()) {
    add_use(use, name, ledger.total(name), ledger.available(name));
  }
  for (const auto& [type, used] : ledger.types_in_use()) {
    const auto shown = Quantity::whole(1);
    add_use(use, std::string(resource::accelerator_prefix) + type, shown, shown - used);
  }
  return use;
}

std::optional<Time> earlier(std::optional<Time> a, std::optional<Time> b) {
  return a && b ? std::min(a, b) : a ? a : b;
}

}  // namespace

Scheduler::Scheduler(const SchedulerSettings& settings)
    : settings_(settings),
      cluster_(settings.max_task_slots_per_node, settings.placement.spread_threshold),
      accounting_(cluster_),
      pending_(cluster_, accounting_),
      groups_(cluster_, accounting_, settings_.groups),
      reclaimer_(cluster_, accounting_, pending_, groups_, settings_.reclaim),
      oversubscription_(cluster_, accounting_, settings_.reclaim.recall_delay),
      preemptor_(cluster_, accounting_, pending_, groups_, settings_.preemption) {}

void Scheduler::add_node(NodeId id, const NodeShape& shape, NodeState state) {
  accounting_.rebook(cluster_.put_node(id, shape, state));
  dirty_ = true;
}

std::vector<Slot> Scheduler::remove_node(NodeId id) {
  std::vector<Slot> lost;
  for (const auto slot : accounting_.slots_on(id)) {
    const auto& held = accounting_.find(slot)->slot;
    if (held.bundle_of.empty()) lost.push_back(held);
    release(slot);
  }
  groups_.node_lost(id, group_news_);
  cluster_.remove_node(id);
  dirty_ = true;
  return lost;
}

void Scheduler::set_node_state(NodeId id, NodeState state) {
  if (cluster_.set_state(id, state)) dirty_ = true;
}

void Scheduler::set_program_state(NodeId id, ProgramId program, const std::string& why_not) {
  if (!cluster_.set_program(id, program, why_not)) return;
  if (!why_not.empty()) groups_.program_cannot_start(program, group_news_);
  dirty_ = true;
}

void Scheduler::set_demand(const LesseeDemand& demand) {
  pending_.set({demand.lessee, {}, demand.demand.job, demand.demand.id}, demand.demand,
               demand.wanted_slots, demand.oldest_waiting, demand.preference);
  dirty_ = true;
}

void Scheduler::set_link(NodeId one, NodeId other, bool cut) {
  if (!cluster_.set_link(one, other, cut)) return;
  pending_.links_changed(one);
  pending_.links_changed(other);
  dirty_ = true;
}

void Scheduler::add_actor_demand(ActorId actor, const DemandClass& demand, Time waiting_since,
                                 std::vector<NodeId> callers) {
  pending_.set(actor_key(actor, demand), demand, 1, waiting_since, {{}, {}, std::move(callers)});
  dirty_ = true;
}

void Scheduler::drop_actor_demand(ActorId actor, const DemandClass& demand) {
  pending_.erase(actor_key(actor, demand));
  dirty_ = true;
}

void Scheduler::drop_lessee(ProcessId lessee) {
  pending_.erase_lessee(lessee);
  dirty_ = true;
}

void Scheduler::drop_job(JobId job) {
  pending_.erase_job(job);
  dirty_ = true;
  accounting_.end_job(job);
}

void Scheduler::set_job_terms(JobId job, const JobTerms& terms) {
  accounting_.set_terms(job, terms);
  dirty_ = true;
}

void Scheduler::set_all_known(bool known) {
  accounting_.set_all_known(known);
  dirty_ = true;
}

bool Scheduler::release(SlotId id) {
  const auto* held = accounting_.find(id);
  if (held == nullptr) return false;
  const auto group = held->slot.allocation.group;
  pending_.gave_back(held->slot.job, held->holder->demand);
  accounting_.release(id);
  ending_.released(id);
  preemptor_.answered(id);
  if (!group.empty()) groups_.slot_gone(group, group_news_);
  return dirty_ = true;
}

bool Scheduler::ends(SlotId id, Time now) {
  const auto* held = accounting_.find(id);
  if (held == nullptr) return false;
  const auto& ledger = held->node->ledger;
  for (const auto& each : held->slot.allocation.resources) {
    if (!ledger.in_instances(each.name)) continue;
    ending_.add(id, held->slot.node, now + settings_.placement.settle_delay);
    return true;
  }
  return true;
}

void Scheduler::add_group(const GroupSpec& spec, const std::vector<BundleLocation>& locations) {
  groups_.add(spec, locations);
  dirty_ = true;
}

void Scheduler::open_group(GroupId group) {
  groups_.open(group);
  dirty_ = true;
}

std::vector<SlotId> Scheduler::remove_group(GroupId group) {
  dirty_ = true;
  return groups_.remove(group);
}

void Scheduler::forget_group(GroupId group) {
  groups_.forget(group);
  dirty_ = true;
}

void Scheduler::restore_bundles(NodeId id) {
  if (auto* node = cluster_.nodes().find(id)) groups_.restore_on(*node, group_news_);
  dirty_ = true;
}

GroupExplanation Scheduler::explain(const GroupSpec& spec) const {
  auto explanation = groups_.explain(spec, settings_.reasons_per_report);
  const auto& held = reclaimer_.for_group().held();
  if (!held || held->group != spec.id) return explanation;
  for (const auto& [node, bundles] : held->bundles) explanation.reserved.insert(node);
  explanation.slots_to_return = held->slots_to_return;
  return explanation;
}

bool Scheduler::release_cpu(SlotId id) { return accounting_.release_cpu(id) && (dirty_ = true); }

bool Scheduler::reacquire_cpu(SlotId id) {
  if (!accounting_.reacquire_cpu(id)) return false;
  oversubscription_.resumed(accounting_.find(id)->slot);
  return true;
}

bool Scheduler::started(SlotId slot) { return accounting_.mark_passed(slot, false); }

bool Scheduler::set_resident(SlotId slot, bool resident) {
  return accounting_.mark_resident(slot, resident) && (dirty_ = true);
}

bool Scheduler::answer_preemption(SlotId id, bool may_end) {
  if (!accounting_.mark_answer(id, may_end ? Ending::allowed : Ending::refused)) return false;
  preemptor_.answered(id);
  return true;
}

bool Scheduler::restore(const Slot& slot) {
  if (!accounting_.restore(slot)) return false;
  pending_.refresh(holder_of(slot));
  return dirty_ = true;
}

bool Scheduler::restore_leaving(const Slot& slot) {
  return restore(slot) && accounting_.mark_recalled(slot.id, last_plan_);
}

Plan Scheduler::plan(Time now, const std::function<SlotId()>& next_slot) {
  Plan plan;
  oversubscription_.run(now, plan.recalls);
  for (const NodeId id : ending_.expire(now)) {
    if (auto* node = cluster_.nodes().find(id)) cluster_.withheld_changed(*node);
    dirty_ = true;
  }
  const auto due = earlier(groups_.next_due(), earlier(reclaimer_.due(), preemptor_.due()));
  if (!dirty_ && (!due || now < *due)) return plan;
  last_plan_ = now;
  groups_.free_removed(now);
  pending_.note_returns(now);
  groups_.note_waiting(now);
  reclaimer_.lift_unneeded(now);
  const auto stamp = cluster_.last_stamp();
  plan.groups = std::exchange(group_news_, {});
  const bool stopped_early = place(now, next_slot, plan);
  for (const auto& grant : plan.grants) {
    reclaimer_.lift(pending_.class_key(holder_of(grant)));
    if (!grant.actor.empty()) pending_.erase(holder_of(grant));
  }
  if (!plan.groups.empty()) reclaimer_.lift_unneeded(now);
  report_infeasible(plan);
  if (!stopped_early) {
    reclaimer_.run(now, plan.recalls);
    preemptor_.run(now, reclaimer_, plan.recalls);
    groups_.yield_bundles(now, plan.groups);
  }
  cluster_.update_indexes();
  // A lifted reservation may let other requests start.
  dirty_ = stopped_early || cluster_.last_stamp() != stamp;
  return plan;
}

// Groups precede other work of equal job priority. Returns true if work is left.
bool Scheduler::place(Time now, const std::function<SlotId()>& next_slot, Plan& plan) {
  bool groups_left = false;
  PlacementRound round(cluster_, accounting_, pending_, settings_.placement,
                       {now, next_slot, reclaimer_.reserved(), ending_});
  for (const auto priority : groups_.priorities()) {
    if (round.run(plan.grants, priority)) return true;
    groups_left = groups_.place(priority, plan.groups) || groups_left;
  }
  groups_.rest();
  return round.run(plan.grants) || groups_left;
}

std::optional<Time> Scheduler::next_deadline() const {
  if (dirty_) return last_plan_;
  return earlier(
      earlier(earlier(oversubscription_.due(), ending_.next_deadline()), groups_.next_due()),
      earlier(reclaimer_.due(), preemptor_.due()));
}

void Scheduler::report_infeasible(Plan& plan) {
  if (settings_.reasons_per_report == 0) return;
  for (const auto& key : pending_.take_infeasible()) {
    const auto& of = pending_.class_of_demand(key);
    const auto& shape = of.row->shape;
    Infeasible report{key.lessee, key.actor, key.job, key.class_id, {}};
    if (auto refusal = pending_.never_allowed(of)) {
      report.reasons.push_back({{}, std::move(*refusal)});
      plan.infeasible.push_back(std::move(report));
      continue;
    }
    for (const auto& [id, node] : cluster_.nodes()) {
      if (report.reasons.size() >= settings_.reasons_per_report) break;
      report.reasons.push_back({id, cluster_.why_not(node, shape)});
    }
    plan.infeasible.push_back(std::move(report));
  }
}

Explanation Scheduler::explain(const Request& request, ProgramId program, Tenant tenant,
                               const std::vector<NodeId>& callers) const {
  RequestShape shape(request, program, tenant);
  shape.callers = cluster_.cut_off(callers);
  Explanation explanation;
  for (const auto& [id, node] : cluster_.nodes()) {
    explanation.nodes.push_back({id, cluster_.why_not(node, shape)});
    explanation.feasible = explanation.feasible || cluster_.can_ever(node, shape);
  }
  if (!shape.group.empty()) explanation.feasible = cluster_.bundle_can_ever(shape);
  if (explanation.feasible) explanation.blockers = least_blockers(cluster_, accounting_, shape);
  return explanation;
}

Explanation Scheduler::explain(const DemandClass& demand, Tenant tenant,
                               const std::vector<NodeId>& callers) const {
  auto explanation =
      explain(demand.request, start_identity(demand.program, demand.env), tenant, callers);
  const auto most = most_held_by(Need(demand.request, tenant));
  const bool in_bundle = !demand.request.placement.group.empty();
  explanation.held_back = held_back(demand, tenant);
  explanation.never_allowed =
      !in_bundle && accounting_.over_quota(demand.job, most, true).has_value();
  explanation.feasible = explanation.feasible && !explanation.never_allowed;
  return explanation;
}

// The best node for the first of its selectors that any node fits.
NodeId Scheduler::choice(const DemandClass& demand, Tenant tenant,
                         const std::vector<NodeId>& callers) const {
  Request request = demand.request;
  const auto fallbacks = std::exchange(request.fallback_selectors, {});
  for (std::size_t i = 0; i <= fallbacks.size(); ++i) {
    if (i > 0) request.label_selector = fallbacks[i - 1];
    RequestShape shape(request, start_identity(demand.program, demand.env), tenant);
    shape.callers = cluster_.cut_off(callers);
    std::optional<NodeRank> best;
    for (const auto& [id, node] : cluster_.nodes()) {
      if (!cluster_.fits(node, shape)) continue;
      const auto ranked = rank(node, shape);
      if (!best || ranked < *best) best = ranked;
    }
    if (best) return best->node;
  }
  return {};
}

bool Scheduler::can_ever(const DemandClass& demand, Tenant tenant) const {
  const auto* waiting = pending_.waiting_class(key_of(demand, tenant));
  return waiting == nullptr ||
         (pending_.feasible(*waiting->row) && !pending_.never_allowed(*waiting));
}

std::optional<Reason> Scheduler::held_back(const DemandClass& demand, Tenant tenant) const {
  // A slot in a bundle counts as part of the bundle.
  if (!demand.request.placement.group.empty()) return std::nullopt;
  const auto most = most_held_by(Need(demand.request, tenant));
  if (auto refusal = accounting_.over_quota(demand.job, most)) return refusal;
  const auto* first = pending_.quota_withheld_for(demand.job, most, last_plan_,
                                                  settings_.placement.quota_reserve_delay);
  if (first != nullptr && first->demand.id != demand.id) {
    return Reason{
        ReasonCode::reserved_for_older,
        first->key.second.brief(),
        {},
        {},
        fmt::format("the job's quota is kept for one for {}", to_string(first->row->shape.need))};
  }
  std::int64_t before = 0;
  pending_.queues().any_of_higher(accounting_.terms(demand.job).priority, [&](const PendingClass&) {
    ++before;
    return false;
  });
  if (before == 0) return std::nullopt;
  return Reason{ReasonCode::behind_priority,
                {},
                {},
                {},
                fmt::format("requests of {} kind{} from jobs of a higher priority wait", before,
                            before == 1 ? "" : "s")};
}

QueuePosition Scheduler::position_in_queue(const DemandClass& demand, Tenant tenant) const {
  return position_of(key_of(demand, tenant), demand.request.priority, pending_, groups_,
                     accounting_);
}

QueuePosition Scheduler::position_in_queue(const GroupSpec& spec) const {
  return position_of(spec, pending_, groups_, accounting_);
}

ResourceSet Scheduler::held_by(JobId job) const {
  const auto* row = accounting_.jobs().find(job);
  return row == nullptr ? ResourceSet() : row->held.amounts();
}

std::vector<NodeUse> Scheduler::node_use() const {
  std::vector<NodeUse> uses;
  for (const auto& [id, node] : cluster_.nodes()) {
    uses.push_back({id, node.state, use_of(node.ledger), node.labels});
  }
  return uses;
}

Use Scheduler::node_use(NodeId node) const {
  const auto* row = cluster_.nodes().find(node);
  return row == nullptr ? Use() : use_of(row->ledger);
}

Use Scheduler::cluster_use() const {
  Use sums;
  for (const auto& [id, node] : cluster_.nodes()) {
    if (node.state == NodeState::dead) continue;
    for (const auto& [name, use] : use_of(node.ledger)) {
      add_use(sums, name, use.total, use.available);
    }
  }
  return sums;
}

const Slot* Scheduler::find_slot(SlotId slot) const {
  const auto* held = accounting_.find(slot);
  return held == nullptr ? nullptr : &held->slot;
}

std::string Scheduler::verify_books() const { return accounting_.verify(); }

}  // namespace mobula::internal::scheduler
