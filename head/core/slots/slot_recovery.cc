// Slots when nodes join, change, die, or report facts, and reports about infeasible demands. Part
// of SlotTable.
#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "base/model/jobs/start_identity.h"
#include "head/core/head_tables.h"
#include "head/core/slots/slot_table.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_unknown_slot("head.stated_slot_may_not_go_on");
const CoverageMark mark_facts_lack("head.facts_lack_a_slot");
const CoverageMark mark_missed_news("head.facts_make_up_for_missed_news");
const CoverageMark mark_held_back("head.infeasible_held_back_while_recovering");

scheduler::NodeState scheduler_state(const Node& node) {
  if (node.state == NodeState::suspect) return scheduler::NodeState::suspect;
  return node.draining ? scheduler::NodeState::draining : scheduler::NodeState::alive;
}

EndCause lost(const std::string& why) {
  EndCause cause;
  cause.kind = EndKind::killed;
  cause.text = why;
  return cause;
}

}  // namespace

// ---- nodes --------------------------------------------------------------------------------------

void SlotTable::node_reshaped(const Node& node) {
  if (node.slots_allowed()) tables_.scheduler.add_node(node.id, node.shape, scheduler_state(node));
}

std::vector<SlotId> SlotTable::node_joined(const Node& node, const Facts& facts) {
  std::vector<SlotId> unknown;
  forget_strangers(node.id);
  if (node.slots_allowed()) {
    for (const EntryEnded& ended : facts.ended_entries) tables_.actors.entry_ended(node.id, ended);
  }
  tables_.last_use.at(node.id, tables_.now);
  if (node.slots_allowed()) tables_.scheduler.add_node(node.id, node.shape, scheduler_state(node));
  const auto take = [&](const SlotFact& fact) {
    if (node.slots_allowed() && may_go_on(fact) && restore(node.id, fact)) return;
    mark_unknown_slot.hit();
    unknown.push_back(fact.slot);
    add_stranger(node.id, fact, 0);
  };
  // Running slots precede the bundles of the journal, and bundles precede the slots in them.
  for (const auto& fact : facts.slots) {
    if (fact.allocation.group.empty()) take(fact);
  }
  tables_.scheduler.restore_bundles(node.id);
  for (const auto& fact : facts.slots) {
    if (!fact.allocation.group.empty()) take(fact);
  }
  tables_.actors.agent_stated(node.address.incarnation, facts);
  return unknown;
}

// A task slot needs its job and its lessee. During recovery the lessee may still be absent.
bool SlotTable::may_go_on(const SlotFact& fact) const {
  if (fact.slot.empty() || rows_.contains(fact.slot)) return false;
  if (fact.departed) return tables_.jobs.works(fact.demand_class.job);
  if (!fact.actor.actor.empty()) return tables_.actors.may_go_on(fact);
  if (fact.lessee.empty() || !tables_.jobs.works(fact.demand_class.job)) return false;
  return tables_.nodes.recovering() || tables_.processes.find(fact.lessee) != nullptr;
}

// The resources of an unknown slot stay allocated until its removal, because its process may still
// use them.
void SlotTable::add_stranger(NodeId node, const SlotFact& fact, std::uint64_t ends_by) {
  strangers_[node].insert_or_assign(fact.slot, ends_by);
  scheduler::Slot booked;
  booked.id = fact.slot;
  booked.node = node;
  booked.allocation = fact.allocation;
  if (rows_.contains(fact.slot) || fact.departed) return;
  if (!tables_.scheduler.restore_leaving(booked)) {
    booked.allocation.group = {};  // the group was removed with its bundle
    booked.allocation.bundle = -1;
    tables_.scheduler.restore_leaving(booked);
  }
  if (fact.lent) tables_.scheduler.release_cpu(fact.slot);
}

void SlotTable::stranger_gone(NodeId node, SlotId slot) {
  const auto at = strangers_.find(node);
  if (at == strangers_.end() || at->second.erase(slot) == 0) return;
  if (!rows_.contains(slot)) tables_.scheduler.release(slot);
}

void SlotTable::forget_strangers(NodeId node) {
  const auto at = strangers_.find(node);
  if (at == strangers_.end()) return;
  for (const auto& [slot, ends_by] : at->second) {
    if (!rows_.contains(slot)) tables_.scheduler.release(slot);
  }
  strangers_.erase(at);
}

bool SlotTable::restore(NodeId node, const SlotFact& fact) {
  scheduler::Slot booked;
  booked.id = fact.slot;
  booked.node = node;
  booked.job = fact.demand_class.job;
  booked.class_id = fact.demand_class.id;
  booked.lessee = fact.lessee;
  booked.actor = fact.actor.actor;
  booked.allocation = fact.allocation;
  if (!fact.departed && !tables_.scheduler.restore(booked)) return false;
  if (fact.lent) tables_.scheduler.release_cpu(fact.slot);

  Slot slot;
  slot.id = fact.slot;
  slot.node = node;
  slot.job = fact.demand_class.job;
  slot.class_id = fact.demand_class.id;
  slot.program = fact.demand_class.program;
  const DemandClass started = tables_.jobs.with_job_env(fact.demand_class);
  slot.start_identity = start_identity(started.program, started.env);
  slot.lessee = fact.lessee;
  slot.actor = fact.actor.actor;
  slot.generation = fact.generation;
  slot.ready = fact.ready;
  slot.lent = fact.lent;
  slot.residence = fact.residence;
  slot.resident_since = tables_.now;
  slot.stopping = fact.stopping;
  slot.ends_there = fact.stopping;
  slot.departed = fact.departed;
  slot.endpoint = fact.endpoint;
  tables_.processes.executor_seen(node, fact.endpoint, fact.demand_class.job, fact.slot);
  add(slot);
  if (slot.residence.any()) tables_.scheduler.set_resident(slot.id, true);
  if (slot.departed) return true;  // unusable for its lessee or actor
  if (!slot.actor.empty()) {
    tables_.actors.adopt(fact, node);
    return true;
  }
  unannounced_.insert(slot.id);
  if (unseen_holds_.erase(slot.id) > 0) learn(rows_.at(slot.id));
  return true;
}

void SlotTable::announce() {
  for (auto at = unannounced_.begin(); at != unannounced_.end();) {
    const Slot& slot = rows_.at(*at);
    if (!slot.ready || slot.stopping || tables_.processes.find(slot.lessee) == nullptr) {
      ++at;
      continue;
    }
    // Lessees on the node of the slot are notified too, because no head received their returns
    // while it was away.
    tables_.processes.send(slot.lessee, ready_of(slot));
    at = unannounced_.erase(at);
  }
}

void SlotTable::announce_to(ProcessId lessee) {
  const auto at = by_lessee_.find(lessee);
  if (at == by_lessee_.end()) return;
  for (const auto id : at->second) {
    const Slot& slot = rows_.at(id);
    // Notified on its own node too: the agent may have had the slot before it had the lessee.
    const bool announced = !unannounced_.contains(id);
    if (!slot.ready || slot.stopping || !announced) continue;
    tables_.processes.send(lessee, ready_of(slot));
    if (slot.recalled && slot.residence.any()) {
      tables_.processes.send(lessee, RecallSlot{id, "it was recalled before"});
    }
  }
}

void SlotTable::node_changed(const Node& node) {
  if (node.slots_allowed()) tables_.scheduler.set_node_state(node.id, scheduler_state(node));
}

void SlotTable::node_died(NodeId node, bool silently, const EndCause& cause) {
  tables_.actors.node_died(node, silently);
  // The scheduler removes the node first, so that no request is placed on it again.
  tables_.scheduler.remove_node(node);
  strangers_.erase(node);
  for (const auto id : slots_on(node)) remove(id, cause, true);
  tables_.last_use.forget(node);
}

void SlotTable::recovery_ended() {
  tables_.jobs.recovery_ended();
  for (const auto& [slot, lessee] : std::exchange(unseen_holds_, {})) {
    tables_.processes.send(
        lessee, SlotLost{slot, lost("its node did not return after the head was restarted")});
  }
  std::vector<SlotId> orphans;
  for (const auto& [id, slot] : rows_) {
    // Includes slots whose lessee is still expected: a return may have been lost while the head was
    // away.
    const bool orphan = !slot.lessee.empty() && tables_.processes.find(slot.lessee) == nullptr;
    if (orphan && !slot.stopping) orphans.push_back(id);
  }
  for (const auto id : orphans) {
    stop(id, false, "its lessee did not return after the head was restarted");
  }
  tables_.groups.recovery_ended();
  tables_.actors.recovery_ended();
  tables_.submissions.recovery_ended();
  report_held_back();
}

// A slot is missing only if the agent had executed its StartSlot.
void SlotTable::reconcile(NodeId node, const Facts& facts, std::uint64_t applied_through) {
  std::set<SlotId> stated;
  for (const auto& fact : facts.slots) {
    stated.insert(fact.slot);
    if (on_node(node, fact.slot) != nullptr) {
      catch_up(node, fact, applied_through);
      continue;
    }
    const auto& strange = strangers_[node];
    const auto known = strange.find(fact.slot);
    // The command to end it is on its way.
    if (known != strange.end() && known->second > applied_through) continue;
    mark_unknown_slot.hit();
    const StopSlot stop{fact.slot, false, "the head does not know this slot"};
    add_stranger(node, fact, fact.stopping ? 0 : tables_.nodes.send(node, stop));
  }
  std::vector<SlotId> strangers_left;
  for (const auto& [slot, ends_by] : strangers_[node]) {
    if (!stated.contains(slot)) strangers_left.push_back(slot);
  }
  for (const auto slot : strangers_left) stranger_gone(node, slot);
  std::vector<SlotId> missing;
  for (const auto id : slots_on(node)) {
    const bool due = rows_.at(id).started_by <= applied_through;
    if (due && !stated.contains(id)) missing.push_back(id);
  }
  for (const auto id : missing) {
    mark_facts_lack.hit();
    // No process is notified twice. An actor lost the slot with its generation, and a lessee that
    // returned it needs no notification.
    remove(id, lost("its agent does not know the slot"), !rows_.at(id).stopping);
  }
}

// Applies missed reports of the slot as if they had arrived.
void SlotTable::catch_up(NodeId node, const SlotFact& fact, std::uint64_t applied_through) {
  Slot* slot = &rows_.at(fact.slot);
  EndCause departed_as;
  departed_as.kind = EndKind::retired;
  lent(node, SlotCpuReleased{fact.slot, fact.lent, fact.departed, departed_as});
  resides(node, SlotResident{fact.slot, fact.residence});
  if (slot->ready && fact.generation > slot->generation) {
    mark_missed_news.hit();
    generation_ended(node, {fact.slot, slot->generation, slot->endpoint.process,
                            lost("its end was not reported")});
  }
  slot->generation = std::max(slot->generation, fact.generation);
  if (fact.ready && !slot->ready && !slot->ends_there) {
    mark_missed_news.hit();
    started(node, {fact.slot, fact.generation, fact.endpoint, EndCause{}});
  }
  if (fact.stopping) {
    slot->ends_there = true;
  } else if (slot->stopping && !slot->ends_there && slot->stopped_by <= applied_through) {
    mark_missed_news.hit();
    slot->stopped_by = tables_.nodes.send(
        node, StopSlot{fact.slot, false, "it was to end", tables_.options.store_results_timeout});
  }
}

// ---- infeasible requests ------------------------------------------------------------------------

void SlotTable::report(const scheduler::Infeasible& infeasible) {
  if (!infeasible.actor.empty()) return tables_.actors.infeasible(infeasible);
  const auto at = demands_.find({infeasible.lessee, infeasible.class_id});
  if (at == demands_.end()) return;
  const Demand& demand = at->second.demand;
  const Job* job = tables_.jobs.find(infeasible.job);
  DemandInfeasible news;
  news.demand_class = infeasible.class_id;
  news.reasons = infeasible.reasons;
  news.summary = summary_of(demand.demand_class.request, infeasible.reasons);
  news.fatal = demand.fail_if_infeasible || is_forbidden(infeasible.reasons) ||
               insists_on_node(demand.demand_class.request) ||
               (job != nullptr && job->start.local_cluster);
  tables_.processes.send(infeasible.lessee, std::move(news));
}

void SlotTable::fail_unserved(const std::map<std::string, std::string>& never) {
  for (const auto& [key, row] : demands_) {
    const auto& demand = row.demand.demand_class;
    const auto at = never.find(demand.id.hex());
    if (at == never.end() || row.demand.wanted_slots <= 0) continue;
    if (tables_.scheduler.explain(demand, scheduler::Tenant::task, {}).feasible) continue;
    DemandInfeasible news;
    news.demand_class = demand.id;
    news.summary = at->second;
    news.fatal = true;
    tables_.processes.send(key.first, std::move(news));
  }
}

void SlotTable::report_held_back() {
  for (const auto& each : std::exchange(held_back_, {})) {
    mark_held_back.hit();
    const auto at = demands_.find({each.lessee, each.class_id});
    const DemandClass* demand_class =
        each.actor.empty() ? (at == demands_.end() ? nullptr : &at->second.demand.demand_class)
                           : tables_.actors.demand_of(each.actor);
    if (demand_class == nullptr) continue;
    const auto tenant = each.actor.empty() ? scheduler::Tenant::task : scheduler::Tenant::actor;
    auto explanation = tables_.scheduler.explain(tables_.jobs.with_job_env(*demand_class), tenant);
    if (explanation.feasible) continue;
    auto infeasible = each;
    if (explanation.never_allowed) {
      infeasible.reasons = {{{}, std::move(*explanation.held_back)}};
    } else {
      infeasible.reasons = std::move(explanation.nodes);
    }
    report(infeasible);
  }
}

bool is_forbidden(const std::vector<NodeReason>& reasons) {
  return !reasons.empty() && reasons.front().reason.code == ReasonCode::over_quota;
}

bool insists_on_node(const Request& request) {
  const auto* affinity = std::get_if<NodeAffinityStrategy>(&request.strategy);
  return affinity != nullptr && !affinity->soft;
}

std::string summary_of(const Request& request, const std::vector<NodeReason>& reasons) {
  const std::string needs = request.resources.to_string();
  if (reasons.empty()) {
    return fmt::format(
        "no node can run this: it requests {}, and the cluster has no nodes; one "
        "joins by `mobula start --address HOST:PORT`, with the head's as `mobula status` says it",
        needs);
  }
  // The quota of the job precedes all nodes.
  if (is_forbidden(reasons)) {
    return fmt::format("this can never run: it requests {}; {}", needs,
                       to_string(reasons.front().reason));
  }
  std::string text = fmt::format("no node can run this: it requests {}", needs);
  if (request.gpu_memory > 0) text += fmt::format(", gpu_memory {}", request.gpu_memory);
  if (!request.accelerator_type.empty()) {
    text += fmt::format(", accelerator type {}", request.accelerator_type);
  }
  // Equal reasons are reported once, with the number of nodes.
  std::map<std::string, std::int64_t> counts;
  for (const auto& each : reasons) ++counts[to_string(each.reason)];
  for (const auto& [reason, count] : counts) {
    text += fmt::format("; {} node{}: {}", count, count == 1 ? "" : "s", reason);
  }
  return text;
}

}  // namespace mobula::internal::head
