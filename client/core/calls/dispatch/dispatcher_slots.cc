// Slots in the dispatcher: reports of the head, preemption, and return.
#include <utility>

#include "base/coverage_mark.h"
#include "client/core/calls/dispatch/dispatcher.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_unwanted_slot("client.slot_came_when_nothing_waited");
const CoverageMark mark_recalled_busy("client.recalled_while_busy");
const CoverageMark mark_preemption_refused("client.preemption_refused");
const CoverageMark mark_unheard_end("client.later_executor_of_a_slot_ended");

// No task is kept for the slot any more.
template <class Classes>
void settle_spread(Classes& classes, SlotId slot, std::vector<ClassId>& stale) {
  for (auto& [id, row] : classes) {
    if (!row.spread) continue;
    row.spread->settled(slot);
    stale.push_back(id);
  }
}

// End of an executor whose slot has already started another one. Its running call may have run.
EndCause end_unheard_of() {
  EndCause cause;
  cause.kind = EndKind::killed;
  cause.text = "the message that said why was lost with an agent or the head";
  return cause;
}

}  // namespace

void Dispatcher::on(const SlotReady& message) {
  auto* demand = classes_.find(message.demand_class);
  if (demand == nullptr || returned_.contains(message.slot)) {
    mark_unwanted_slot.hit();
    if (demand != nullptr) {
      // The head counted the slot as wanted and granted, so the present demand is sent again.
      demand->dirty = true;
      stale_.push_back(message.demand_class);
    }
    return step_.send_to_head(ReturnSlot{message.slot});
  }
  auto [slot, fresh] = slots_.ensure(message.slot);
  if (!fresh && slot->executor == message.endpoint.process) return;
  if (!fresh && message.generation <= slot->generation && !slot->executor.empty()) return;
  if (fresh) {
    if (demand->spread) demand->spread->settled(message.slot);
    demand->slots.push_back(message.slot);
    class_clocks_.slot_added(message.demand_class, *demand);
    demand->received.push_back(message.slot);
    // The head counts this slot against the demand, so the remaining demand is sent again even if
    // its size is equal.
    demand->dirty = true;
  }
  if (!slot->executor.empty()) {
    const bool next = message.generation == slot->generation + 1;
    streams_.executor_ended(slot->executor, next ? message.previous : end_unheard_of());
  }
  slot = &slots_.at(message.slot);
  slot->demand_class = message.demand_class;
  slot->node = message.node;
  slot->generation = message.generation;
  slot->executor = message.endpoint.process;
  slot->idle_since = step_.now();
  slot->used = false;
  slot->holds_results = false;
  demand = &classes_.at(message.demand_class);
  demand->waiting_reason.clear();
  demand->warned = false;
  StreamRow& stream = streams_.open(message.endpoint);
  stream.slot = message.slot;
  // Without a call, this message opens the connection, so that the next call does not wait for one.
  if (demand->queue.empty()) streams_.acknowledge(stream);
  stale_.push_back(message.demand_class);
}

void Dispatcher::on(const GenerationEnded& message) {
  auto* slot = slots_.find(message.slot);
  if (slot != nullptr && !slot->executor.empty() && slot->generation <= message.generation) {
    const ProcessId known = std::exchange(slot->executor, {});
    class_clocks_.changed(slot->demand_class, classes_.at(slot->demand_class));
    if (known != message.process) {
      mark_unheard_end.hit();
      streams_.executor_ended(known, end_unheard_of());
    }
  }
  streams_.executor_ended(message.process, message.cause);
}

void Dispatcher::on(const SlotLost& message) {
  const auto* slot = slots_.find(message.slot);
  if (slot == nullptr) {
    settle_spread(classes_, message.slot, stale_);
    return returned_.remember(message.slot, true);  // SlotReady may be on its way
  }
  const ClassId demand_class = slot->demand_class;
  // The other slots of the node are lost too, and are reported one by one. No call must be sent to
  // them until then.
  std::vector<ProcessId> lost{slot->executor};
  if (message.cause.kind == EndKind::node_died) {
    for (const auto& [id, each] : slots_) {
      if (each.node == slot->node && id != message.slot) lost.push_back(each.executor);
    }
  }
  for (const ProcessId executor : lost) {
    if (!executor.empty()) streams_.executor_ended(executor, message.cause);
  }
  forget(message.slot);
  stale_.push_back(demand_class);
}

void Dispatcher::on(const RecallSlot& message) {
  auto* slot = slots_.find(message.slot);
  if (slot == nullptr) {
    settle_spread(classes_, message.slot, stale_);
    returned_.remember(message.slot, true);  // SlotReady may be on its way
    return step_.send_to_head(ReturnSlot{message.slot});
  }
  slot->recalled = true;
  auto* stream = streams_.find(slot->executor);
  if (stream && !stream->in_flight.empty()) {
    mark_recalled_busy.hit();
    if (stream->in_flight.size() > 1) streams_.say(*stream, ReturnCallsRequest{});
    if (message.running != RunningTask::finishes) preempt(message, *stream);
  }
  stale_.push_back(slot->demand_class);
}

// The oldest call without a reply is the running one. The reply, or the end of its executor,
// returns it.
void Dispatcher::preempt(const RecallSlot& message, StreamRow& stream) {
  const auto& [number, task] = *stream.in_flight.begin();
  TaskRow& row = port_.task_row(task);
  const bool may_end = row.retries_left != 0 && !row.cancelled;
  if (!may_end) mark_preemption_refused.hit();
  if (!may_end || message.running == RunningTask::is_queried) {
    return step_.send_to_head(PreemptionAnswer{message.slot, may_end, row.call.form->name});
  }
  if (row.preempted) return;
  row.preempted = true;
  streams_.say(stream, CancelCall{number, false, true});  // its children are cancelled with it
}

void Dispatcher::return_slot(SlotId slot) {
  const ProcessId executor = slots_.at(slot).executor;
  step_.send_to_head(ReturnSlot{slot});
  returned_.remember(slot, true);
  forget(slot);
  streams_.drop(executor);
}

// Returns idle slots of other classes that hold devices, before more devices are requested.
// Otherwise these slots decide which devices the new request gets.
void Dispatcher::return_idle_devices(ClassId except) {
  std::vector<SlotId> idle;
  for (const auto& [order, id] : class_clocks_.with_slots()) {
    const ClassRow& row = classes_.at(id);
    if (id == except || !row.queue.empty() || !wants_devices(row.spec.request)) continue;
    visited_rows_ += 1 + row.slots.size();
    for (const SlotId slot : row.slots) {
      const SlotRow& held = slots_.at(slot);
      const auto* stream = streams_.find(held.executor);
      const bool busy = (stream != nullptr && !stream->in_flight.empty()) ||
                        streams_.has_unclaimed(held.executor);
      if (!busy && !held.holds_results) idle.push_back(slot);
    }
  }
  for (const SlotId slot : idle) return_slot(slot);
}

void Dispatcher::forget(SlotId slot) {
  const auto* row = slots_.find(slot);
  if (row == nullptr) return;
  if (auto* demand = classes_.find(row->demand_class)) {
    std::erase(demand->slots, slot);
    std::erase(demand->received, slot);
    class_clocks_.changed(row->demand_class, *demand);
  }
  slots_.erase(slot);
}

void Dispatcher::call_left(const StreamRow& stream, ClassId demand_class) {
  if (auto* slot = slots_.find(stream.slot)) slot->idle_since = step_.now();
  stale_.push_back(demand_class);
}

void Dispatcher::slot_changed(SlotId id) {
  if (const auto* slot = slots_.find(id)) stale_.push_back(slot->demand_class);
}

bool Dispatcher::holds_results(const StreamRow& stream) const {
  const auto* slot = slots_.find(stream.slot);
  return slot != nullptr && slot->executor == stream.endpoint.process && slot->holds_results;
}

void Dispatcher::set_holds_results(const StreamRow& stream, bool on) {
  auto* slot = slots_.find(stream.slot);
  if (slot == nullptr || slot->executor != stream.endpoint.process) return;
  slot->holds_results = on;
  slot->idle_since = step_.now();
  stale_.push_back(slot->demand_class);
}

bool Dispatcher::give_up(const StreamRow& stream, const std::string& reason) {
  const auto* row = slots_.find(stream.slot);
  if (row == nullptr || row->executor != stream.endpoint.process) return false;
  stale_.push_back(row->demand_class);
  step_.send_to_head(ReturnSlot{stream.slot, reason, stream.endpoint.node});
  returned_.remember(stream.slot, true);
  forget(stream.slot);
  return true;
}

void Dispatcher::restate() {
  for (const auto& [slot, row] : slots_) step_.send_to_head(HoldSlot{slot, row.demand_class});
  for (auto& [id, row] : classes_) {
    row.reported = -1;
    if (row.spread) row.spread->forget();
    report_demand(row);
  }
}

void Dispatcher::return_all_slots() {
  std::vector<SlotId> slots;
  for (const auto& [slot, row] : slots_) slots.push_back(slot);
  for (const SlotId slot : slots) return_slot(slot);
}

// The head reclaims them with the job, and does not always report each.
void Dispatcher::forget_all_slots() {
  while (!slots_.empty()) {
    const SlotId slot = slots_.begin()->first;
    returned_.remember(slot, true);
    forget(slot);
  }
}

void Dispatcher::fail_all(ErrorKind kind, const std::string& why) {
  std::vector<ClassId> classes;
  for (const auto& [demand_class, row] : classes_) classes.push_back(demand_class);
  for (const ClassId demand_class : classes) fail_queued(demand_class, kind, why);
}

}  // namespace mobula::internal::client
