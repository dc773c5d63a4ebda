// Slots that run a job's command instead of an executor. The command has no link to the agent: it
// is ready after its start and ends by signals. Later heads receive its end with the facts.
#include "worker/core/slots/slots.h"

namespace mobula::internal::worker {

void Slots::entry_started(SlotId slot, SlotRow& row) {
  row.phase = SlotPhase::ready;
  row.constructed = ValueRecord{};
  row.running = row.start.actor.class_name;
  row.may_run_again = row.start.actor.max_restarts != 0;
  row.deadline.reset();
  if (row.start.actor.entry.time_limit > Duration(0)) {
    row.deadline = outbox_.now() + row.start.actor.entry.time_limit;
    watch(row);
  }
  head_.tell(SlotStarted{slot, row.generation, row.endpoint, row.previous});
  head_.tell(ActorConstructed{row.start.actor.actor, slot, row.generation, ValueRecord{}});
  if (row.stopping) request_exit(row);
}

void Slots::entry_over(SlotId slot, const SlotRow& row, const EndCause& cause) {
  // Recorded before the report, so that facts requested by the head are in order.
  ended_entries_.push_back(EntryEnded{row.start.actor.actor, slot, row.generation, cause});
  if (ended_entries_.size() > max_ended_entries) ended_entries_.pop_front();
  head_.tell(SlotGenerationEnded{slot, row.generation, ProcessId{}, cause});
}

// The pool kills the remaining processes after `grace`.
void Slots::end_entry(SlotRow& row, Duration grace) {
  row.deadline.reset();
  const std::string& why = row.killed ? *row.killed : row.stop_why;
  outbox_.emit(KillExecutor{row.start.slot, row.generation, why, grace});
}

}  // namespace mobula::internal::worker
