#include "head/core/slots/slot_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "base/model/jobs/start_identity.h"
#include "head/core/head_tables.h"
#include "protocol/messages/facts/slot_digest.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_old_demand("head.demand_out_of_date");
const CoverageMark mark_old_generation("head.message_of_an_earlier_generation");
const CoverageMark mark_gone_unasked("head.slot_ended_without_a_request");
const CoverageMark mark_hold_unknown("head.hold_of_unknown_slot");
const CoverageMark mark_departed("head.slot_without_resources_awaits_submitted_calls");

// Limits of the wanted slots and the waiting time of a demand. A larger value is forged.
constexpr std::int64_t most_wanted_slots = 1'000'000'000;
// Change of the oldest submission time that shows that the oldest task left the queue. Smaller
// changes may be delays of messages.
constexpr Duration queue_advance = 100ms;
constexpr Duration longest_wait = std::chrono::hours(24 * 365);

// Keeps the time of the last advance unless the new demand shows another one.
void retain_if_stalled(const DemandRow& before, DemandRow& row) {
  const bool advanced = row.demand.waiting_tasks < before.demand.waiting_tasks ||
                        row.oldest_waiting > before.oldest_then + queue_advance;
  if (advanced) return;
  row.advanced_at = before.advanced_at;
  row.oldest_then = before.oldest_then;
}

}  // namespace

// ---- rows --------------------------------------------------------------------------------------

void SlotTable::add(Slot slot) {
  if (!slot.lessee.empty()) by_lessee_[slot.lessee].insert(slot.id);
  by_node_[slot.node].insert(slot.id);
  by_job_.add(slot.job, slot.id);
  const SlotId id = slot.id;
  rows_.insert(id, std::move(slot));
}

std::set<SlotId> SlotTable::slots_on(NodeId node) const {
  const auto at = by_node_.find(node);
  return at == by_node_.end() ? std::set<SlotId>() : at->second;
}

std::optional<std::uint64_t> SlotTable::digest(NodeId node, std::uint64_t applied_through) const {
  std::uint64_t sum = 0;
  if (const auto strange = strangers_.find(node); strange != strangers_.end()) {
    for (const auto& [id, stopped_by] : strange->second) {
      if (stopped_by > applied_through) return std::nullopt;
      sum += ending_slot_digest(id);
    }
  }
  const auto at = by_node_.find(node);
  if (at == by_node_.end()) return sum;
  for (const auto id : at->second) {
    const Slot& slot = rows_.at(id);
    const bool begun = slot.started_by <= applied_through;
    const bool ends = slot.ends_there || (slot.stopping && slot.stopped_by <= applied_through);
    if (!begun) continue;
    sum += ends ? ending_slot_digest(id) : slot_digest(id, slot.generation, slot.ready);
  }
  return sum;
}

Slot* SlotTable::on_node(NodeId node, SlotId id) {
  Slot* slot = rows_.find(id);
  return slot != nullptr && slot->node == node ? slot : nullptr;
}

// The lessee counts a known slot among its slots. After its removal the total is one less until the
// next demand. A slot that was returned before it was known is still wanted.
void SlotTable::remove(SlotId id, const EndCause& cause, bool notify_lessee) {
  const Slot slot = std::move(rows_.at(id));
  rows_.erase(id);
  unannounced_.erase(id);
  if (held_orders_.erase(id) > 0) tables_.actors.order_withdrawn(slot.actor);
  by_job_.remove(slot.job, id);
  auto& on_its_node = by_node_[slot.node];
  on_its_node.erase(id);
  if (on_its_node.empty()) by_node_.erase(slot.node);
  tables_.scheduler.release(id);
  tables_.last_use.at(slot.node, tables_.now);
  tables_.jobs.slot_gone(slot.job);
  if (slot.lessee.empty()) return tables_.actors.slot_gone(slot.actor, id, cause);

  auto& of_lessee = by_lessee_[slot.lessee];
  of_lessee.erase(id);
  if (of_lessee.empty()) by_lessee_.erase(slot.lessee);
  retry_plan_reports(slot.lessee);
  const auto at = demands_.find({slot.lessee, slot.class_id});
  if (at != demands_.end() && (slot.known || slot.counted)) {
    at->second.total = std::max<std::int64_t>(0, at->second.total - 1);
    set_demand(slot.lessee, at->second);
  }
  if (notify_lessee) tables_.processes.send(slot.lessee, SlotLost{id, cause});
}

void SlotTable::stop(SlotId id, bool graceful, const std::string& why, Duration store_timeout,
                     bool orderly) {
  Slot* slot = rows_.find(id);
  if (slot == nullptr) return;
  slot->stopping = true;
  // The agent does not know the slot. It is removed when the journal has replied.
  if (const auto held = held_orders_.find(id); held != held_orders_.end()) {
    held->second.stop_why = why;
    return;
  }
  const std::uint64_t number =
      tables_.nodes.send(slot->node, StopSlot{id, graceful, why, store_timeout, orderly});
  if (slot->stopped_by == 0 && !slot->ends_there) slot->stopped_by = number;
}

// ---- lessees -----------------------------------------------------------------------------------

// Counts the slots of the lessee that a new demand does not include.
std::int64_t SlotTable::count_known(ProcessId lessee, ClassId demand_class) {
  const auto at = by_lessee_.find(lessee);
  if (at == by_lessee_.end()) return 0;
  std::int64_t count = 0;
  for (const auto id : at->second) {
    Slot& slot = rows_.at(id);
    if (slot.class_id != demand_class) continue;
    slot.counted = !slot.known && slot.stopping && !slot.departed;
    if (slot.known || slot.counted) ++count;
  }
  return count;
}

// A slot of an earlier epoch that its lessee has but did not count when it sent its demand.
void SlotTable::learn(Slot& slot) {
  const bool counted = std::exchange(slot.counted, false);
  if (std::exchange(slot.known, true) || counted) return;
  const auto at = demands_.find({slot.lessee, slot.class_id});
  if (at == demands_.end()) return;
  ++at->second.total;
  set_demand(slot.lessee, at->second);
}

// Called with the Demand that names the slots. It requests further slots in addition to them.
void SlotTable::note_received(ProcessId lessee, const std::vector<SlotId>& received) {
  for (const SlotId id : received) {
    Slot* const slot = rows_.find(id);
    if (slot != nullptr && slot->lessee == lessee) slot->known = true;
  }
}

void SlotTable::set_demand(ProcessId lessee, const DemandRow& row) {
  scheduler::LesseeDemand demand;
  demand.lessee = lessee;
  demand.demand = tables_.jobs.with_job_env(row.demand.demand_class);
  demand.wanted_slots = row.total;
  demand.oldest_waiting = row.oldest_waiting;
  for (const auto& each : row.demand.locality) {
    demand.preference.locality.push_back({each.node, each.tasks});
  }
  demand.preference.home = tables_.processes.node_of(lessee);
  demand.preference.callers = {demand.preference.home};
  tables_.scheduler.set_demand(demand);
}

void SlotTable::demand(ProcessId lessee, const Demand& message) {
  const ClassId id = message.demand_class.id;
  const auto at = demands_.find({lessee, id});
  if (at != demands_.end() && message.version < at->second.demand.version) {
    return mark_old_demand.hit();
  }
  if (at == demands_.end()) {
    const auto first = demands_.lower_bound({lessee, ClassId{}});
    std::uint64_t classes = 0;
    for (auto each = first; each != demands_.end() && each->first.first == lessee; ++each)
      ++classes;
    if (classes >= tables_.options.max_classes_per_lessee) {
      DemandInfeasible refusal;
      refusal.demand_class = id;
      refusal.summary = fmt::format(
          "this process already waits for slots of {} kinds, which is the "
          "limit",
          classes);
      refusal.fatal = true;
      return tables_.processes.send(lessee, std::move(refusal));
    }
  }
  const auto* closed = message.wanted_slots > 0
                           ? tables_.groups.why_closed(message.demand_class.request.placement.group)
                           : nullptr;
  if (closed != nullptr) refuse_demand(lessee, id, *closed);
  const bool absent = message.wanted_slots > 0 &&
                      tables_.jobs.has_other_program(message.demand_class) &&
                      tables_.jobs.job_with_program(message.demand_class) == nullptr;
  if (absent) refuse_program(lessee, message.demand_class);
  const Duration waited = std::clamp(message.oldest_wait, Duration(0), longest_wait);
  DemandRow row{message, 0, tables_.now - waited, tables_.now, tables_.now - waited};
  if (at != demands_.end()) retain_if_stalled(at->second, row);
  // A slot that the lessee does not know yet was granted for this demand, even if it is ready.
  note_received(lessee, message.received);
  if (closed == nullptr && !absent)
    row.total = std::clamp<std::int64_t>(message.wanted_slots, 0, most_wanted_slots);
  if (row.total > 0) row.total += count_known(lessee, id);
  set_demand(lessee, row);
  if (message.report_plan && row.total > 0) plan_reports_.insert({lessee, id});
  if (row.total > 0) {
    put_demand({lessee, id}, std::move(row));
  } else {
    erase_demand({lessee, id});
  }
}

void SlotTable::put_demand(const DemandKey& key, DemandRow row) {
  const JobId job = row.demand.demand_class.job;
  const GroupId group = row.demand.demand_class.request.placement.group;
  const auto at = demands_.find(key);
  if (at != demands_.end()) {
    const DemandClass& before = at->second.demand.demand_class;
    if (before.job == job && before.request.placement.group == group) {
      at->second = std::move(row);
      return;
    }
    erase_demand(key);
  }
  if (tables_.jobs.has_other_program(row.demand.demand_class))
    demands_of_other_programs_.insert(key);
  demands_.emplace(key, std::move(row));
  demands_of_job_.add(job, key);
  if (!group.empty()) demands_of_group_.add(group, key);
}

void SlotTable::erase_demand(const DemandKey& key) {
  const auto at = demands_.find(key);
  if (at == demands_.end()) return;
  const DemandClass& demand_class = at->second.demand.demand_class;
  demands_of_job_.remove(demand_class.job, key);
  demands_of_group_.remove(demand_class.request.placement.group, key);
  demands_of_other_programs_.erase(key);
  demands_.erase(at);
}

void SlotTable::returned(ProcessId lessee, SlotId id) {
  const Slot* slot = rows_.find(id);
  if (slot == nullptr || slot->lessee != lessee || slot->stopping) return;
  tables_.scheduler.ends(id, tables_.now);
  stop(id, false, "returned by its lessee", tables_.options.store_results_timeout);
}

void SlotTable::link_lost(ProcessId lessee, const ReturnSlot& message) {
  const Slot* slot = rows_.find(message.slot);
  if (slot == nullptr || slot->lessee != lessee) return;
  const EventSubjects about{
      .node = slot->node, .job = slot->job, .process = lessee, .slot = message.slot};
  tables_.links.given_up(tables_.processes.node_of(lessee), slot->node, about, message.unreachable);
}

void SlotTable::held(ProcessId lessee, const HoldSlot& message) {
  if (Slot* slot = rows_.find(message.slot)) {
    if (slot->lessee != lessee) return;
    learn(*slot);
    // The executor in the slot may differ from the one that the lessee knows.
    if (slot->ready && !slot->stopping) tables_.processes.send(lessee, ready_of(*slot));
    return;
  }
  if (tables_.nodes.recovering() && unseen_holds_.size() < tables_.options.max_actors) {
    unseen_holds_[message.slot] = lessee;
    return;
  }
  mark_hold_unknown.hit();
  tables_.processes.send(lessee,
                         SlotLost{message.slot, killed("the head does not know this slot")});
}

void SlotTable::lessee_ended(ProcessId lessee, const EndCause& cause) {
  std::erase_if(unseen_holds_, [&](const auto& each) { return each.second == lessee; });
  std::vector<DemandKey> demanded;
  for (auto each = demands_.lower_bound({lessee, ClassId{}});
       each != demands_.end() && each->first.first == lessee; ++each)
    demanded.push_back(each->first);
  const auto at = by_lessee_.find(lessee);
  if (demanded.empty() && at == by_lessee_.end()) return;
  for (const auto& key : demanded) erase_demand(key);
  tables_.scheduler.drop_lessee(lessee);
  if (at == by_lessee_.end()) return;
  const std::set<SlotId> slots = at->second;
  // Other processes may refer to results of the lessee, so they are stored. If a driver ended, the
  // end of its job follows.
  const Duration store_timeout = tables_.options.store_results_timeout;
  for (const auto id : slots) {
    if (!rows_.at(id).stopping) stop(id, false, "its lessee " + to_string(cause), store_timeout);
  }
}

Survivors SlotTable::survivors(JobId job) const {
  Survivors survivors;
  for (bool more = true; more;) {
    more = false;
    for (const auto id : by_job_.of(job)) {
      const Slot& slot = rows_.at(id);
      if (survivors.slots.contains(id)) continue;
      const Actor* actor = slot.lessee.empty() ? tables_.actors.find(slot.actor) : nullptr;
      const bool detached = actor != nullptr && actor->spec().detached;
      const bool is_needed = actor != nullptr ? ActorTable::survives(*actor, survivors.processes)
                                              : survivors.processes.contains(slot.lessee);
      if (!detached && !is_needed) continue;
      more = true;
      survivors.slots.insert(id);
      if (!slot.endpoint.process.empty()) survivors.processes.insert(slot.endpoint.process);
    }
  }
  return survivors;
}

void SlotTable::job_ended(JobId job, const Survivors& survivors) {
  const std::set<DemandKey> demanded = demands_of_job_.of(job);
  demands_walked_ += demanded.size();
  for (const auto& key : demanded) {
    if (!survivors.processes.contains(key.first)) erase_demand(key);
  }
  tables_.scheduler.drop_job(job);
  if (const auto* row = tables_.jobs.find(job); row != nullptr && row->lingers) {
    tables_.scheduler.set_job_terms(job, row->start.terms);
  }
  tables_.actors.demand_again(job);
  for (const auto& key : demands_of_job_.of(job)) set_demand(key.first, demands_.at(key));
  std::vector<SlotId> slots;
  for (const auto id : by_job_.of(job)) {
    const Slot& slot = rows_.at(id);
    const bool ends = !slot.lessee.empty() && !slot.stopping;
    if (ends && !survivors.slots.contains(id)) slots.push_back(id);
  }
  for (const auto id : slots) stop(id, false, "its job has ended", {}, true);
}

bool SlotTable::ends_in(JobId job) const {
  return std::ranges::any_of(by_job_.of(job), [this](SlotId id) { return rows_.at(id).stopping; });
}

// ---- reports of agents --------------------------------------------------------------------------

void SlotTable::relay(const Slot& slot, HeadToProcess message) {
  if (tables_.processes.node_of(slot.lessee) == slot.node) return;  // its agent has sent it
  tables_.processes.send(slot.lessee, std::move(message));
}

SlotReady SlotTable::ready_of(const Slot& slot) {
  SlotReady ready;
  ready.slot = slot.id;
  ready.demand_class = slot.class_id;
  ready.node = slot.node;
  ready.generation = slot.generation;
  ready.endpoint = slot.endpoint;
  return ready;
}

void SlotTable::notify_ready(const Slot& slot, const EndCause& previous) {
  SlotReady ready = ready_of(slot);
  ready.previous = previous;
  relay(slot, std::move(ready));
}

void SlotTable::started(NodeId node, const SlotStarted& message) {
  Slot* slot = on_node(node, message.slot);
  if (slot == nullptr || message.generation < slot->generation) return mark_old_generation.hit();
  slot->generation = message.generation;
  slot->ready = true;
  slot->endpoint = message.endpoint;
  tables_.scheduler.started(message.slot);
  tables_.processes.executor_seen(node, message.endpoint, slot->job, slot->id);
  if (slot->lessee.empty()) {
    tables_.actors.started(slot->actor, *slot);
  } else if (!slot->stopping) {
    notify_ready(*slot, message.previous);
    // Its agent may have notified the lessee before this report arrived, and the reply of the
    // lessee was lost.
    if (unannounced_.contains(message.slot)) announce();
  }
}

void SlotTable::generation_ended(NodeId node, const SlotGenerationEnded& message) {
  Slot* slot = on_node(node, message.slot);
  const bool known = slot != nullptr && message.generation >= slot->generation;
  // The lessee receives the cause before all agents receive the death.
  if (known && !slot->lessee.empty()) {
    slot->generation = message.generation + 1;
    relay(*slot, GenerationEnded{message.slot, message.generation, message.process, message.cause});
  }
  const JobId job = known ? slot->job : JobId();
  if (message.cut_calls > 0 && tables_.jobs.works(job)) {
    tables_.events.note(
        Severity::warning, "EXECUTOR_CALLS_CUT",
        {.node = node, .job = job, .process = message.process, .slot = message.slot},
        "the executor " + to_string(message.cause));
  }
  if (!message.exit_failure.empty()) {
    tables_.events.note(
        Severity::warning, "EXECUTOR_EXIT_FAILED",
        {.node = node, .job = job, .process = message.process, .slot = message.slot},
        message.exit_failure);
  }
  if (tables_.processes.node_of(message.process) == node) {
    tables_.processes.ended(message.process, message.cause);
  }
  if (!known) return mark_old_generation.hit();
  slot->ready = false;
  slot->over_share.clear();
  if (!slot->lessee.empty()) return;
  // The allocation of the slot stays until SlotGone, but the actor continues at once.
  slot->stopping = true;
  slot->ends_there = true;
  tables_.actors.slot_gone(slot->actor, message.slot, message.cause);
}

void SlotTable::gone(NodeId node, const SlotGone& message) {
  const Slot* slot = on_node(node, message.slot);
  if (slot == nullptr) return stranger_gone(node, message.slot);
  if (message.program_cannot_start) {
    const auto why = message.cause.text.empty() ? to_string(message.cause) : message.cause.text;
    remember_failed_start(node, slot->start_identity, why);
    tables_.events.note(Severity::error, "PROGRAM_START_FAILED",
                        {.node = node, .job = slot->job, .actor = slot->actor},
                        "the program cannot be started there: " + why);
  } else if (message.cause.kind == EndKind::start_failed && !slot->stopping) {
    tables_.events.note(Severity::warning, "PROGRAM_START_FAILED",
                        {.node = node, .job = slot->job, .actor = slot->actor},
                        "the program was not started there: " + message.cause.text);
  }
  const bool unasked = !slot->stopping;
  if (unasked) mark_gone_unasked.hit();
  // The lessee does not know a slot in which no executor started.
  const bool was_announced = slot->known || slot->reported || !slot->endpoint.process.empty();
  remove(message.slot, message.cause, unasked && (was_announced || !message.program_cannot_start));
}

void SlotTable::remember_failed_start(NodeId node, ProgramId identity, const std::string& why) {
  failed_starts_.add(tables_.now, {node, identity});
  tables_.scheduler.set_program_state(node, identity, why);
}

void SlotTable::tick() {
  for (const auto& [node, identity] : failed_starts_.take_expired(tables_.now)) {
    tables_.scheduler.set_program_state(node, identity, "");
  }
}

void SlotTable::lent(NodeId node, const SlotCpuReleased& message) {
  Slot* slot = on_node(node, message.slot);
  if (slot == nullptr) return;
  if (message.departed) return departed(*slot, message.cause);
  if (slot->lent == message.on || slot->departed) return;
  slot->lent = message.on;
  if (message.on) {
    tables_.scheduler.release_cpu(message.slot);
  } else {
    tables_.scheduler.reacquire_cpu(message.slot);
  }
}

// The row stays until the process has exited, so that drains and the end of the job find it.
void SlotTable::departed(Slot& slot, const EndCause& cause) {
  if (std::exchange(slot.departed, true)) return;
  mark_departed.hit();
  const SlotId id = slot.id;
  const bool unasked = !slot.stopping;
  slot.stopping = slot.ends_there = true;
  slot.lent = false;
  tables_.scheduler.release(id);
  if (slot.lessee.empty()) return tables_.actors.slot_gone(slot.actor, id, cause);
  retry_plan_reports(slot.lessee);
  const bool counted = slot.known || slot.counted;
  slot.known = slot.counted = false;
  if (const auto at = demands_.find({slot.lessee, slot.class_id});
      counted && at != demands_.end()) {
    at->second.total = std::max<std::int64_t>(0, at->second.total - 1);
    set_demand(slot.lessee, at->second);
  }
  if (unasked) relay(slot, SlotLost{id, cause});
}

void SlotTable::resides(NodeId node, const SlotResident& message) {
  Slot* slot = on_node(node, message.slot);
  if (slot == nullptr || slot->lessee.empty() || slot->residence == message.residence) return;
  if (!slot->residence.any()) slot->resident_since = tables_.now;
  slot->residence = message.residence;
  tables_.scheduler.set_resident(message.slot, slot->residence.any());
  // An idle slot returns automatically, with or without a recall. A resident slot does not.
  if (!slot->residence.any() || !slot->recalled || slot->stopping) return;
  tables_.processes.send(slot->lessee, RecallSlot{message.slot, "it was recalled before"});
}

void SlotTable::over_share(NodeId node, const SlotShareExceeded& message) {
  Slot* slot = on_node(node, message.slot);
  if (slot == nullptr || message.generation < slot->generation) return;
  slot->over_share = message.on ? message.text : std::string();
  if (!message.on) return;
  tables_.events.note(Severity::warning, "GPU_SHARE_EXCEEDED",
                      {.node = node, .job = slot->job, .actor = slot->actor, .slot = message.slot},
                      message.text);
  tables_.commands.push_back(WriteLog{
      fmt::format("slot {} on node {}: {}", message.slot.hex(), node.hex(), message.text)});
}

}  // namespace mobula::internal::head
