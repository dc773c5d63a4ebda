// Ends of generations and slots.
#include <algorithm>

#include "worker/core/slots/slots.h"

namespace mobula::internal::worker {
namespace {

constexpr int kill_signal = 9;

}  // namespace

void Slots::start_failed(const ExecutorStartFailed& failed) {
  if (current(failed.slot, failed.generation) == nullptr) return;
  EndCause cause;
  cause.kind = EndKind::start_failed;
  cause.text = failed.text;
  if (failed.program_fault) {
    finish(failed.slot, std::move(cause), true);
  } else {
    generation_over(failed.slot, std::move(cause));
  }
}

void Slots::exited(const ExecutorExited& exited) {
  if (current(exited.slot, exited.generation) == nullptr) return;
  generation_over(exited.slot, exited.cause);
}

void Slots::link_lost(SlotId slot, std::uint32_t generation) {
  SlotRow* row = current(slot, generation);
  if (row == nullptr || row->killed) return;
  // A process closes its socket a moment before its exit. One that only closed the socket is
  // useless.
  const Time by = outbox_.now() + options_.end_timeout;
  if (!row->deadline || by < *row->deadline) row->deadline = by;
  watch(*row);
}

// The cause of an end for the head and its users: adds the facts of this agent to the exit status,
// and the submitted calls that are cut.
EndCause Slots::explained(const SlotRow& row, EndCause raw) const {
  EndCause cause = explained_end(row, std::move(raw));
  const bool planned = cause.kind == EndKind::retired || cause.kind == EndKind::intended;
  if (planned || row.submitted == 0) return cause;
  if (!cause.text.empty()) cause.text += "; ";
  cause.text +=
      "calls that it had submitted and that were not finished: " + std::to_string(row.submitted);
  if (!row.awaited.empty()) cause.text += ", one of them " + row.awaited;
  return cause;
}

EndCause Slots::explained_end(const SlotRow& row, EndCause cause) const {
  if (cause.pid == 0) cause.pid = row.pid;
  if (cause.kind == EndKind::start_failed) return cause;
  const bool without_memory =
      cause.kind == EndKind::out_of_memory || (row.for_memory && cause.signal == kill_signal);
  if (without_memory && !row.retires) {
    cause.kind = EndKind::out_of_memory;
    if (row.for_memory) cause.text = *row.killed;
    return cause;
  }
  if (row.retires) {
    // The executor had reported its planned end. A deadline of this agent or an exit handler of the
    // user does not change it.
    cause.kind = *row.retires;
  } else if (row.killed) {
    cause.kind = EndKind::killed;
    cause.text = *row.killed;
  } else if (row.stopping && cause.kind == EndKind::exited && cause.exit_code == 0) {
    // Only a graceful stop guarantees that no call was cut.
    cause.kind = row.graceful ? EndKind::retired : EndKind::killed;
    if (cause.text.empty()) cause.text = row.stop_why;
  }
  return cause;
}

// A planned exit has only exit handlers of the user left to run.
std::string Slots::exit_failure(const SlotRow& row, const EndCause& status) {
  if (!row.retires) return {};
  if (row.killed) return "its exit handlers were cut: " + *row.killed;
  if (status.signal == 0 && status.exit_code == 0) return {};
  std::string text = "the process ended in an exit handler or a destructor: it ";
  text += to_string(status);
  if (!status.last_lines.empty()) text += "; last output: " + status.last_lines;
  return text;
}

void Slots::generation_over(SlotId slot, EndCause raw) {
  SlotRow& row = rows_.at(slot);
  const EndCause status = raw;
  const EndCause cause = explained(row, std::move(raw));
  const bool was_ready = row.phase == SlotPhase::ready;
  const bool had_process = row.phase != SlotPhase::starting;
  report_released_cpu(slot, row, false);
  report_residence(slot, row, ResidentResults{});
  gpus_.gone(slot);
  row.running.clear();
  row.may_run_again = true;
  // An out-of-memory kill by the kernel counts, too: its memory also returns, and one kill is
  // enough.
  const bool for_memory =
      std::exchange(row.for_memory, false) || cause.kind == EndKind::out_of_memory;
  const bool for_share = std::exchange(row.for_share, false);
  if (for_memory && !for_share) memory_.gone(outbox_.now());
  if (row.is_entry()) {
    entry_over(slot, row, cause);
  } else if (had_process) {
    // The lessee receives the cause before other processes are notified, because its reaction to
    // the calls depends on the cause.
    const bool cut = cause.kind != EndKind::retired && cause.kind != EndKind::intended;
    head_.tell(SlotGenerationEnded{slot, row.generation, row.process, cause,
                                   cut ? row.submitted : 0, exit_failure(row, status)});
    processes_.send(row.start.lessee,
                    FromHead{GenerationEnded{slot, row.generation, row.process, cause}});
    hooks_.gone(row.process, cause);
  }
  if (row.stopping || row.is_actor()) {
    finish(slot, cause, false);
    return;
  }
  next_generation(slot, row, was_ready, cause);
}

void Slots::next_generation(SlotId slot, SlotRow& row, bool was_ready, const EndCause& cause) {
  row.crashes = row.retires && cause.kind == *row.retires ? 0 : row.crashes + 1;
  if (!was_ready && ++row.failed_starts >= options_.start_attempts) {
    EndCause last = cause;
    last.kind = EndKind::start_failed;
    last.text = "its executor ended " + std::to_string(row.failed_starts) +
                " times in a row before it was ready; the last one " + to_string(cause);
    finish(slot, std::move(last), false);
    return;
  }
  ++row.generation;
  row.process = ProcessId{};
  row.pid = 0;
  row.endpoint = Endpoint{};
  row.previous = cause;
  row.retires.reset();
  row.killed.reset();
  row.submitted = 0;
  row.awaited.clear();
  // After a single crash the next generation starts at once, except after lack of memory.
  const int crashes = cause.kind == EndKind::out_of_memory ? row.crashes : row.crashes - 1;
  const int in_a_row = std::max(row.failed_starts, crashes);
  if (in_a_row <= 0) {
    begin_generation(slot, row);
    return;
  }
  row.phase = SlotPhase::pausing;
  row.deadline =
      outbox_.now() + std::min(options_.restart_backoff_initial * (1 << std::min(in_a_row - 1, 10)),
                               options_.restart_backoff_max);
  watch(row);
}

void Slots::end(SlotId slot, bool graceful, const std::string& why, bool stores, bool orderly) {
  SlotRow& row = rows_.at(slot);
  // A later order may cancel the storing of results.
  const bool again = row.stopping && (row.graceful == graceful || !row.graceful);
  if (again && (graceful || !row.store_by || stores)) return;
  if (!stores) row.store_by.reset();
  row.stopping = true;
  row.graceful = graceful;
  row.orderly = orderly;
  row.stop_why = why;
  if (!row.has_process()) {
    EndCause cause;
    cause.kind = EndKind::retired;
    cause.text = why;
    finish(slot, std::move(cause), false);
    return;
  }
  request_exit(row);
}

void Slots::request_exit(SlotRow& row) {
  if (row.phase == SlotPhase::starting) return;  // sent after the start
  if (row.is_entry())
    return end_entry(row, row.graceful ? row.start.actor.entry.grace : options_.end_timeout);
  processes_.send(row.process,
                  EndExecutor{row.graceful, row.stop_why, row.store_by.has_value(), row.orderly});
  if (!row.graceful && row.store_by && row.submitted > 0) {
    row.deadline = kill_at_;  // it awaits calls, as it reported
  } else if (!row.graceful) {
    row.deadline =
        row.store_by && row.residence.any() ? *row.store_by : outbox_.now() + options_.end_timeout;
  } else if (row.phase == SlotPhase::ready) {
    row.deadline.reset();
  }
  watch(row);
}

// An executor that awaits its submitted calls ends when they are finished, its job ends, or its
// node is drained.
void Slots::departs(SlotId slot, SlotRow& row, const ExecutorBlocked& message) {
  row.submitted = message.submitted;
  row.awaited = message.example;
  const bool planned = row.graceful || row.store_by;
  if (row.stopping && planned && !row.killed) row.deadline = kill_at_;
  watch(row);
  if (!message.on || row.departed) return;
  row.departed = true;
  EndCause cause;
  cause.kind = message.kind == EndKind::intended ? EndKind::intended : EndKind::retired;
  cause.pid = row.pid;
  const bool was_stopping = std::exchange(row.stopping, true);
  if (!was_stopping) {
    row.graceful = true;
    row.stop_why = "the calls that it has submitted are awaited";
  }
  head_.tell(SlotCpuReleased{slot, true, true, cause});
  if (!was_stopping && !row.is_actor())
    processes_.send(row.start.lessee, FromHead{SlotLost{slot, cause}});
}

void Slots::kill(SlotId slot, SlotRow& row, const std::string& why) {
  row.deadline.reset();
  if (!row.killed) row.killed = why;
  outbox_.emit(KillExecutor{slot, row.generation, why});
}

void Slots::finish(SlotId slot, EndCause cause, bool cannot_start) {
  const ProgramId program = rows_.at(slot).start.program.id;
  const bool entry = rows_.at(slot).is_entry();
  if (rows_.at(slot).start.actor.exclusive) --exclusive_;
  rows_.erase(slot);
  if (!entry) programs_.unuse(program, slot);
  head_.tell(SlotGone{slot, std::move(cause), cannot_start});
}

// ---- the agent ----------------------------------------------------------------------------------

void Slots::close(const std::string& why) {
  closed_ = true;
  closed_why_ = why;
}

void Slots::end_all(bool graceful, const std::string& why, Time kill_at) {
  close(why);
  kill_at_ = kill_at;
  std::vector<SlotId> all;
  for (const auto& [slot, row] : rows_) all.push_back(slot);
  for (const SlotId slot : all) {
    end(slot, graceful, why);
    SlotRow* row = rows_.find(slot);
    if (row == nullptr) continue;
    if (!row->deadline || kill_at < *row->deadline) row->deadline = kill_at;
    watch(*row);
  }
}

void Slots::kill_all(const std::string& why) {
  close(why);
  for (auto& [slot, row] : rows_) {
    row.stopping = true;
    if (row.has_process()) kill(slot, row, why);
  }
}

void Slots::fence_exclusive(const std::string& why) {
  for (auto& [slot, row] : rows_) {
    if (row.start.actor.exclusive && row.has_process() && !row.killed) kill(slot, row, why);
  }
}

bool Slots::has_exclusive() const {
  if (exclusive_ == 0) return false;
  for (const auto& [slot, row] : rows_) {
    if (row.start.actor.exclusive && row.has_process() && !row.killed) return true;
  }
  return false;
}

void Slots::tick() {
  std::vector<SlotId> due;
  deadlines_.take_due(
      outbox_.now(), [this](SlotId slot) { return rows_.find(slot); }, due);
  std::sort(due.begin(), due.end());
  for (const SlotId slot : due) {
    SlotRow* const found = rows_.find(slot);
    if (found == nullptr || !found->deadline) continue;
    SlotRow& row = *found;
    if (*row.deadline > outbox_.now()) {
      watch(row);
      continue;
    }
    row.deadline.reset();
    if (row.phase == SlotPhase::pausing) {
      begin_generation(slot, row);
    } else if (row.retires) {
      kill(slot, row,
           "they did not return within " + std::to_string(options_.exit_timeout / 1ms) + " ms");
    } else if (row.stopping) {
      kill(slot, row, row.stop_why);
    } else if (row.phase == SlotPhase::ready && row.is_entry()) {
      row.killed = "it ran longer than its time limit of " +
                   std::to_string(row.start.actor.entry.time_limit / 1ms) + " ms";
      end_entry(row, row.start.actor.entry.grace);
    } else if (row.phase == SlotPhase::ready) {
      kill(slot, row, "it closed its link to the agent");
    } else {
      kill(slot, row, "it was not ready in time");
    }
  }
}

std::size_t Slots::settle() {
  std::size_t visited = 0;
  deadlines_.settle(
      [&](SlotId slot) {
        ++visited;
        return rows_.find(slot);
      },
      [](const SlotRow& row) { return row.deadline; });
  return visited;
}

bool Slots::deadlines_are_exact() const {
  std::optional<Time> first;
  for (const auto& [slot, row] : rows_) take_earlier(first, row.deadline);
  return first == next_deadline();
}

}  // namespace mobula::internal::worker
