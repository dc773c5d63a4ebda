#include "worker/core/slots/slots.h"

#include <algorithm>

#include "protocol/messages/facts/slot_digest.h"

namespace mobula::internal::worker {

Slots::Slots(Outbox& outbox, const WorkerOptions& options, HeadSession& head, Processes& processes,
             Programs& programs, Hooks hooks)
    : outbox_(outbox),
      options_(options),
      head_(head),
      processes_(processes),
      programs_(programs),
      hooks_(std::move(hooks)),
      memory_(options),
      gpus_(options) {}

// ---- messages of the head -----------------------------------------------------------------------

void Slots::start(StartSlot start) {
  const SlotId slot = start.slot;
  if (rows_.contains(slot)) return;
  if (closed_) {
    EndCause cause;
    cause.kind = EndKind::start_failed;  // not charged to the actor
    cause.text = closed_why_;
    head_.tell(SlotGone{slot, std::move(cause), false});
    return;
  }
  SlotRow row;
  row.start = std::move(start);
  row.generation = row.start.first_generation;
  SlotRow& kept = *rows_.insert(slot, std::move(row)).first;
  if (kept.start.actor.exclusive) ++exclusive_;
  if (kept.is_entry() || programs_.use(kept.start.program, slot)) begin_generation(slot, kept);
}

void Slots::stop(const StopSlot& stop) {
  if (!rows_.contains(stop.slot)) {
    // Reported before, but in an earlier session.
    head_.tell(SlotGone{stop.slot, EndCause{}, false});
    return;
  }
  SlotRow& row = rows_.at(stop.slot);
  // A repeated order keeps its first deadline. A departed executor is stopping already, but no
  // order has set a deadline.
  const bool ordered = row.stopping && !row.graceful;
  if (!ordered && stop.store_timeout > Duration(0)) {
    row.store_by = outbox_.now() + std::min(stop.store_timeout, options_.store_results_timeout);
  }
  // A drain and the end of the job cut the calls that an executor awaits.
  const bool cuts = row.submitted > 0 && stop.store_timeout == Duration(0);
  end(stop.slot, stop.graceful, stop.why, row.store_by.has_value() && !cuts, stop.orderly);
}

void Slots::job_ended(JobId job, const std::vector<SlotId>& kept) {
  std::vector<SlotId> ending;
  for (const auto& [slot, row] : rows_) {
    if (row.start.demand_class.job != job || std::ranges::count(kept, slot) != 0) continue;
    ending.push_back(slot);
  }
  for (const SlotId slot : ending) end(slot, false, "its job has ended", false, true);
}

void Slots::end_unknown(const std::vector<SlotId>& slots) {
  for (const SlotId slot : slots) {
    if (rows_.contains(slot)) end(slot, false, "the head does not know its slot");
  }
}

void Slots::restate() {
  for (const auto& [slot, row] : rows_) {
    if (row.constructed && row.has_process()) {
      head_.tell(ActorConstructed{row.start.actor.actor, slot, row.generation, *row.constructed});
    }
  }
  if (pressure_.on) head_.tell(pressure_);
}

// ---- starting -----------------------------------------------------------------------------------

void Slots::program_came(const Programs::Outcome& outcome) {
  std::vector<SlotId> waiting;
  for (const auto& [slot, row] : rows_) {
    if (row.phase == SlotPhase::preparing && row.start.program.id == outcome.program) {
      waiting.push_back(slot);
    }
  }
  for (const SlotId slot : waiting) {
    SlotRow* row = rows_.find(slot);
    if (row == nullptr) continue;
    if (!outcome.failure) {
      begin_generation(slot, *row);
      continue;
    }
    EndCause cause;
    cause.kind = EndKind::start_failed;
    cause.text = outcome.failure->text;
    finish(slot, std::move(cause), outcome.cannot_start);
  }
}

void Slots::begin_generation(SlotId slot, SlotRow& row) {
  const StartSlot& start = row.start;
  row.phase = SlotPhase::starting;
  row.order = processes_made_++;
  row.process = ProcessId::derived(head_.node().address.incarnation, "executor", row.order);
  row.deadline = outbox_.now() + options_.start_timeout;
  watch(row);
  AssignExecutor assign;
  assign.process = row.process;
  assign.node = head_.node().address.node;
  assign.slot = slot;
  assign.generation = row.generation;
  assign.demand_class = start.demand_class;
  assign.allocation = start.allocation;
  assign.lessee = start.lessee;
  assign.actor = start.actor;
  assign.incarnation = row.is_actor() ? row.generation + 1 : 0;
  assign.name_space = start.name_space;
  assign.head_signing_key = head_.signing_key();
  assign.fabric = head_.fabric();
  assign.cpu_release_delay = head_.settings().cpu_release_delay;
  outbox_.emit(StartExecutor{slot, row.generation, start.program.id, start.program.arguments,
                             start.program.working_dir, start.job_env, std::move(assign)});
}

SlotRow* Slots::current(SlotId slot, std::uint32_t generation) {
  SlotRow* row = rows_.find(slot);
  return row != nullptr && row->generation == generation && row->has_process() ? row : nullptr;
}

SlotRow* Slots::with_process(SlotId slot) {
  SlotRow* row = rows_.find(slot);
  return row != nullptr && row->has_process() ? row : nullptr;
}

void Slots::started(const ExecutorStarted& started) {
  SlotRow* row = current(started.slot, started.generation);
  if (row == nullptr || row->phase != SlotPhase::starting) return;
  row->phase = SlotPhase::assigned;
  row->pid = started.pid;
  if (row->is_entry()) return entry_started(started.slot, *row);
  const Principal principal{Role::executor, row->start.actor.class_name,
                            row->start.demand_class.job};
  ProcessRow& process = processes_.attach(started.link, row->process, principal, started.pid);
  process.slot = started.slot;
  process.generation = started.generation;
  hooks_.began(row->process, principal);
  if (row->stopping) request_exit(*row);
}

void Slots::said_ready(SlotId slot, ExecutorReady ready) {
  SlotRow* row = with_process(slot);
  if (row == nullptr || row->phase != SlotPhase::assigned || row->process != ready.process) return;
  row->phase = SlotPhase::ready;
  row->endpoint = std::move(ready.endpoint);
  row->failed_starts = 0;
  if (row->stopping) return;
  row->deadline.reset();
  head_.tell(SlotStarted{slot, row->generation, row->endpoint, row->previous});
  const StartSlot& start = row->start;
  processes_.send(start.lessee,
                  FromHead{SlotReady{slot, start.demand_class.id, head_.node().address.node,
                                     row->generation, row->endpoint, row->previous}});
}

void Slots::said_blocked(SlotId slot, const ExecutorBlocked& message) {
  SlotRow* row = with_process(slot);
  if (row == nullptr) return;
  if (message.departing) return departs(slot, *row, message);
  report_released_cpu(slot, *row, message.on);
}

void Slots::report_released_cpu(SlotId slot, SlotRow& row, bool on) {
  if (std::exchange(row.lent, on) != on) head_.tell(SlotCpuReleased{slot, on});
}

void Slots::said_resides(SlotId slot, const ResidentResults& residence) {
  SlotRow* row = with_process(slot);
  if (row != nullptr && !row->is_actor()) report_residence(slot, *row, residence);
}

void Slots::report_residence(SlotId slot, SlotRow& row, const ResidentResults& residence) {
  if (row.residence == residence) return;
  row.residence = residence;
  head_.tell(SlotResident{slot, residence});
  if (row.stopping && !row.graceful && residence.any()) row.deadline = row.store_by;
  watch(row);
}

void Slots::said_retires(SlotId slot, EndKind kind) {
  SlotRow* row = with_process(slot);
  if (row == nullptr || row->retires) return;
  row->retires = kind == EndKind::intended ? EndKind::intended : EndKind::retired;
  // Only exit handlers of the user remain.
  const Time by = outbox_.now() + options_.exit_timeout;
  if (!row->deadline || by < *row->deadline) row->deadline = by;
  watch(*row);
}

void Slots::said_constructed(SlotId slot, ValueRecord error) {
  SlotRow* row = with_process(slot);
  if (row == nullptr || !row->is_actor() || row->constructed) return;
  row->constructed = error;
  head_.tell(ActorConstructed{row->start.actor.actor, slot, row->generation, std::move(error)});
}

void Slots::said_running(SlotId slot, std::string name, bool may_run_again) {
  SlotRow* row = with_process(slot);
  if (row == nullptr) return;
  row->running = std::move(name);
  row->may_run_again = may_run_again;
}

// ---- views --------------------------------------------------------------------------------------

std::vector<SlotFact> Slots::facts() const {
  std::vector<SlotFact> out;
  for (const auto& [slot, row] : rows_) {
    SlotFact fact;
    fact.slot = slot;
    fact.demand_class = row.start.demand_class;
    fact.allocation = row.start.allocation;
    fact.lessee = row.start.lessee;
    fact.actor = row.start.actor;
    fact.generation = row.generation;
    fact.ready = row.phase == SlotPhase::ready;
    fact.lent = row.lent;
    fact.residence = row.residence;
    fact.stopping = row.stopping;
    fact.departed = row.departed;
    fact.endpoint = row.endpoint;
    out.push_back(std::move(fact));
  }
  return out;
}

std::uint64_t Slots::digest() const {
  std::uint64_t sum = 0;
  for (const auto& [slot, row] : rows_) {
    sum += row.stopping ? ending_slot_digest(slot)
                        : slot_digest(slot, row.generation, row.phase == SlotPhase::ready);
  }
  return sum;
}

std::vector<std::string> Slots::running() const {
  std::vector<std::string> out;
  for (const auto& [slot, row] : rows_) {
    if (!row.running.empty()) out.push_back(row.running);
  }
  return out;
}

std::set<JobId> Slots::jobs() const {
  std::set<JobId> out;
  for (const auto& [slot, row] : rows_) out.insert(row.start.demand_class.job);
  return out;
}

}  // namespace mobula::internal::worker
