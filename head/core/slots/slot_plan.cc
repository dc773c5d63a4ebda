// Grants, recalls, and preemptions of the scheduler. Part of SlotTable.
#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "base/model/jobs/start_identity.h"
#include "head/core/head_tables.h"
#include "head/core/slots/slot_table.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_grant_unwanted("head.grant_without_a_demand");
const CoverageMark mark_program_ended("head.demand_for_a_program_that_ended");
const CoverageMark mark_report_delayed("head.plan_report_awaits_stopping_slots");

}  // namespace

void SlotTable::plan() {
  if (!tables_.serving) return;
  auto plan = tables_.scheduler.plan(
      tables_.now, [this] { return SlotId(derive_bits(tables_.epoch_id, "slot", ++counter_)); });
  for (const auto& each : plan.groups) tables_.groups.changed(each);
  for (auto& grant : plan.grants) carry_out(std::move(grant));
  for (const auto& each : plan.recalls) {
    Slot* slot = rows_.find(each.slot);
    if (slot == nullptr) continue;
    if (each.cause == scheduler::RecallCause::preemption) {
      preempt(*slot, each);
    } else {
      recall(*slot, std::string(to_string(each.cause)));
    }
  }
  for (const auto& each : plan.infeasible) {
    if (tables_.nodes.recovering()) {
      held_back_.push_back(each);
    } else {
      report(each);
    }
  }
  report_plans();
}

// Answers the demands that requested a report, after the scheduler has finished placing.
void SlotTable::report_plans() {
  constexpr std::size_t most_slots = 1024;
  if (plan_reports_.empty() || !tables_.scheduler.is_settled()) return;
  for (const auto& key : std::exchange(plan_reports_, {})) {
    const auto demand = demands_.find(key);
    if (demand == demands_.end()) continue;
    if (awaits_stopping_slots(key)) {
      mark_report_delayed.hit();
      delayed_reports_.insert(key);
      continue;
    }
    DemandPlanned report{key.second, demand->second.demand.version, {}};
    if (const auto held = by_lessee_.find(key.first); held != by_lessee_.end()) {
      for (const SlotId id : held->second) {
        Slot& slot = rows_.at(id);
        if (slot.class_id != key.second || slot.ready || slot.stopping) continue;
        if (report.starting.size() == most_slots) break;
        slot.reported = true;
        report.starting.push_back(id);
      }
    }
    tables_.processes.send(key.first, std::move(report));
  }
}

// True if the demand has fewer slots than it wants, and slots that its lessee returned still have
// their resources. The demand can get these.
bool SlotTable::awaits_stopping_slots(const DemandKey& key) const {
  const auto held = by_lessee_.find(key.first);
  if (held == by_lessee_.end()) return false;
  std::int64_t granted = 0;
  bool any_stops = false;
  for (const SlotId id : held->second) {
    const Slot& slot = rows_.at(id);
    if (slot.departed) continue;
    any_stops |= slot.stopping;
    if (slot.class_id == key.second) ++granted;
  }
  return any_stops && granted < demands_.at(key).total;
}

// A slot of the lessee was released.
void SlotTable::retry_plan_reports(ProcessId lessee) {
  const auto first = delayed_reports_.lower_bound({lessee, ClassId{}});
  auto end = first;
  while (end != delayed_reports_.end() && end->first == lessee) plan_reports_.insert(*end++);
  delayed_reports_.erase(first, end);
}

void SlotTable::carry_out(scheduler::Slot grant) {
  Slot slot;
  slot.id = grant.id;
  slot.node = grant.node;
  slot.lessee = grant.lessee;
  slot.actor = grant.actor;
  StartSlot start;
  start.slot = grant.id;
  start.allocation = std::move(grant.allocation);
  start.lessee = grant.lessee;
  bool wanted = false;
  bool present = false;  // the driver that has the program
  if (!grant.actor.empty()) {
    wanted = tables_.actors.granted(grant, start);
    const Job* const owner = tables_.jobs.job_with_program(start.demand_class);
    present = owner != nullptr && owner->runs();
  } else if (const Job* job = tables_.jobs.find(grant.job)) {
    const auto demand = demands_.find({grant.lessee, grant.class_id});
    if (demand != demands_.end() && job->works()) {
      wanted = true;
      tables_.counts.slot_grants.add(tables_.now - demand->second.oldest_waiting);
      slot.name = demand->second.demand.example_name;
      start.demand_class = demand->second.demand.demand_class;
      const Job* const owner = tables_.jobs.job_with_program(start.demand_class);
      wanted = owner != nullptr;
      if (wanted) start.program = owner->start.program;
      present = wanted && owner->runs();
      start.job_env = job->start.env;
      start.name_space = job->name_space;
      start.show_output = job->start.show_output && job->runs();
    }
  }
  if (!wanted) {
    mark_grant_unwanted.hit();
    tables_.scheduler.release(grant.id);
    return;
  }
  if (!present) {
    // The node of the driver may no longer have the program. A node that runs it becomes the
    // source.
    for (const auto& [id, other] : rows_) {
      if (!other.ready || other.program != start.program.id) continue;
      start.program.source = other.node;
      if (other.node == grant.node) break;
    }
  }
  slot.job = start.demand_class.job;
  slot.class_id = start.demand_class.id;
  slot.program = start.demand_class.program;
  const DemandClass started = tables_.jobs.with_job_env(start.demand_class);
  slot.start_identity = start_identity(started.program, started.env);
  slot.generation = start.first_generation;
  order(std::move(slot), std::move(start));
}

void SlotTable::recall(Slot& slot, const std::string& why) {
  if (slot.recalled || slot.stopping || slot.lessee.empty()) return;
  slot.recalled = true;
  tables_.processes.send(slot.lessee, RecallSlot{slot.id, why});
}

// Repeats the recall for a slot that was recalled or subject to preemption before.
void SlotTable::preempt(Slot& slot, const scheduler::Recall& recall) {
  if (slot.stopping || slot.lessee.empty()) return;
  slot.recalled = true;
  if (!std::exchange(slot.preempting, true)) ++preemptions_.requested;
  const auto priority_of = [&](JobId job) {
    const Job* row = tables_.jobs.find(job);
    return row == nullptr ? 0 : row->start.terms.priority;
  };
  const JobId job = slot.job;
  tables_.events.note(
      Severity::warning, "TASK_PREEMPTED", {.node = slot.node, .job = job, .slot = slot.id},
      fmt::format("its slot is {} job {} (priority {}; its own is {})",
                  recall.queries ? "queried for" : "recalled for", recall.for_job.hex(),
                  priority_of(recall.for_job), priority_of(job)));
  tables_.commands.push_back(WriteLog{fmt::format(
      "preemption: slot {} on node {} of job {} (priority {}) is {} job {} (priority {}), "
      "which waits for class {}",
      slot.id.hex(), slot.node.hex(), job.hex(), priority_of(job),
      recall.queries ? "queried for" : "recalled for", recall.for_job.hex(),
      priority_of(recall.for_job), recall.for_class.hex())});
  tables_.processes.send(slot.lessee,
                         RecallSlot{slot.id, std::string(to_string(recall.cause)),
                                    recall.queries ? RunningTask::is_queried : RunningTask::ends});
}

void SlotTable::preemption_answered(ProcessId lessee, const PreemptionAnswer& message) {
  Slot* slot = rows_.find(message.slot);
  if (slot == nullptr || slot->lessee != lessee || !slot->preempting) return;
  tables_.scheduler.answer_preemption(message.slot, message.may_end);
  if (message.may_end) return;
  slot->preempting = false;
  ++preemptions_.refused;
  tables_.events.note(Severity::info, "PREEMPTION_REFUSED",
                      {.node = slot->node, .job = slot->job, .slot = slot->id},
                      fmt::format("task {} may not run again and holds its slot until it has ended",
                                  message.task_name));
  tables_.commands.push_back(WriteLog{
      fmt::format("preemption: the lessee of slot {} holds it until task {} has ended, which "
                  "may not run again",
                  message.slot.hex(), message.task_name)});
}

// The head notifies lessees first, because the removal is a reason to fail and not to retry.
void SlotTable::group_removed(GroupId group, const std::set<SlotId>& users,
                              const std::string& why) {
  EndCause cause;
  cause.kind = EndKind::group_removed;
  cause.text = why;
  for (const auto id : users) {
    const Slot* slot = rows_.find(id);
    if (slot == nullptr || slot->lessee.empty()) continue;
    if (!slot->stopping) tables_.processes.send(slot->lessee, SlotLost{id, cause});
    stop(id, false, why);
  }
  const std::set<DemandKey> waiting = demands_of_group_.of(group);
  demands_walked_ += waiting.size();
  for (const auto& key : waiting) refuse_demand(key.first, key.second, why);
}

void SlotTable::refuse_demand(ProcessId lessee, ClassId demand_class, const std::string& why) {
  DemandInfeasible refusal;
  refusal.demand_class = demand_class;
  refusal.summary = "its placement group was removed: " + why;
  refusal.fatal = true;
  refusal.group_removed = true;
  tables_.processes.send(lessee, std::move(refusal));
}

void SlotTable::refuse_program(ProcessId lessee, const DemandClass& demand_class) {
  mark_program_ended.hit();
  DemandInfeasible refusal;
  refusal.demand_class = demand_class.id;
  refusal.summary = fmt::format("no job runs its program {} any more; start that program again",
                                demand_class.program.brief());
  refusal.fatal = true;
  tables_.processes.send(lessee, std::move(refusal));
}

void SlotTable::refuse_absent_programs() {
  std::vector<DemandKey> absent;
  for (const auto& key : demands_of_other_programs_) {
    if (tables_.jobs.job_with_program(demands_.at(key).demand.demand_class) == nullptr)
      absent.push_back(key);
  }
  for (const auto& key : absent) {
    DemandRow& row = demands_.at(key);
    refuse_program(key.first, row.demand.demand_class);
    row.total = 0;
    set_demand(key.first, row);
    erase_demand(key);
  }
}

void SlotTable::recall_all(NodeId node, const std::string& why) {
  for (const auto id : slots_on(node)) recall(rows_.at(id), why);
}

std::size_t SlotTable::stop_all(NodeId node, const std::string& why) {
  std::size_t stopped = 0;
  for (const auto id : slots_on(node)) {
    const Slot& slot = rows_.at(id);
    if (slot.lessee.empty() && !slot.departed) continue;  // ActorTable ends live actors
    if (!slot.stopping) tables_.processes.send(slot.lessee, SlotLost{id, killed(why)});
    stop(id, false, why);
    ++stopped;
  }
  return stopped;
}

}  // namespace mobula::internal::head
