// Demand, slots, and dispatch: the way of a queued task to an executor.
#include <algorithm>
#include <array>

#include "base/coverage_mark.h"
#include "client/core/client_core.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_unwanted_slot("client.slot_came_when_nothing_waited");
const CoverageMark mark_recalled_busy("client.recalled_while_busy");
const CoverageMark mark_preemption_refused("client.preemption_refused");
const CoverageMark mark_waits_there("client.call_waits_at_an_executor");
const CoverageMark mark_stolen("client.calls_taken_back_from_behind_another");
const CoverageMark mark_infeasible("client.class_infeasible");
const CoverageMark mark_unheard_end("client.later_executor_of_a_slot_ended");

// Bytes of tensor elements in the value that are stored in this process.
std::int64_t tensor_bytes_of(const ValueRecord& value, ProcessId process) {
  std::int64_t bytes = 0;
  for (const RefRecord& ref : value.contained) {
    if (!ref.tensor.is_empty() && ref.owner == process) bytes += ref.tensor->size_bytes;
  }
  return bytes;
}

// Limit of demands from or to zero tasks that do not await the report interval. A class that
// changes between zero and one task with each call would flood the agent and the head.
constexpr std::size_t max_early_reports = 16;

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

// ---- demand ------------------------------------------------------------------------------------

void ClientCore::tell_demand(ClassRow& row) {
  const auto wanted = static_cast<std::int64_t>(row.waiting());
  row.dirty = wanted != row.told || (row.dirty && wanted > 0);
  if (!row.dirty) return;
  const bool edge = wanted == 0 || row.told <= 0;
  if (now_ >= row.demand_due(options_.demand_report_interval)) {
    row.early_reports = 0;
  } else if (!edge || row.early_reports++ >= max_early_reports) {
    return;
  }
  if (wanted > 0 && row.told <= 0 && wants_devices(row.spec.request))
    return_idle_devices(row.spec.id);
  Demand demand;
  demand.demand_class = row.spec;
  demand.version = ++demand_version_;
  demand.wanted_slots = wanted;
  demand.waiting_tasks = wanted;
  demand.fail_if_infeasible = row.fail_if_infeasible;
  if (!row.queue.empty()) {
    const TaskRow& oldest = tasks_.at(row.queue.front());
    demand.oldest_wait = now_ - oldest.since;
    demand.example_name = oldest.call.form->name;
  }
  std::map<NodeId, std::int64_t> preferences;
  for (std::size_t i = 0; i < std::min<std::size_t>(row.queue.size(), 64); ++i) {
    for (const auto& argument : *tasks_.at(row.queue[i]).call.arguments) {
      const auto* object = argument.is_ref ? objects_.find(argument.ref.object) : nullptr;
      if (object && object->ready && object->value->in_store)
        ++preferences[object->value->location];
    }
  }
  for (const auto& [node, tasks] : preferences) demand.locality.push_back({node, tasks});
  demand.heard = std::exchange(row.heard, {});
  demand.report_plan = row.spread && wanted > std::max<std::int64_t>(row.told, 0);
  if (demand.report_plan) row.spread->demanded(demand.version, now_);
  row.told = wanted;
  row.dirty = false;
  row.tell_after = now_ + options_.demand_report_interval;
  tell_head(std::move(demand));
}

void ClientCore::head_says(const DemandInfeasible& message) {
  if (!message.actor.empty()) {
    auto* actor = actors_.find(message.actor);
    if (actor == nullptr) return;
    if (!message.fatal) {
      actor->waiting_reason = "Infeasible: " + message.summary;
      return emit(Warn{"actor " + actor->spec.class_name + " waits: " + message.summary});
    }
    actor->refusal = message.summary;
    actor->missing_resource = missing_resource(message.reasons);
    actor->cause = EndCause{EndKind::start_failed, 0, 0, 0, message.summary, {}};
    return actor_died(message.actor);
  }
  auto* row = classes_.find(message.demand_class);
  if (row == nullptr) return;
  mark_infeasible.hit();
  row->waiting_reason = "Infeasible: " + message.summary;
  if (!message.fatal) {
    if (!row->warned) emit(Warn{"tasks wait that no present node can run: " + message.summary});
    row->warned = true;
    return;
  }
  fail_queued(message.demand_class,
              message.group_removed ? ErrorKind::placement_group_removed : ErrorKind::unschedulable,
              " can never be scheduled: " + message.summary, missing_resource(message.reasons));
}

void ClientCore::head_says(const DemandPlanned& message) {
  auto* row = classes_.find(message.demand_class);
  if (row == nullptr || !row->spread) return;
  std::vector<SlotId> starting;
  for (const SlotId slot : message.starting) {
    if (!slots_.contains(slot) && !returned_.contains(slot)) starting.push_back(slot);
  }
  row->spread->planned(message.version, starting, now_);
  stale_.push_back(message.demand_class);
}

// ---- slots -------------------------------------------------------------------------------------

void ClientCore::head_says(const SlotReady& message) {
  auto* demand = classes_.find(message.demand_class);
  if (demand == nullptr || returned_.contains(message.slot)) {
    mark_unwanted_slot.hit();
    if (demand != nullptr) {
      // The head counted the slot as wanted and granted, so the present demand is sent again.
      demand->dirty = true;
      stale_.push_back(message.demand_class);
    }
    return tell_head(ReturnSlot{message.slot});
  }
  auto [slot, fresh] = slots_.ensure(message.slot);
  if (!fresh && slot->executor == message.endpoint.process) return;
  if (!fresh && message.generation <= slot->generation && !slot->executor.empty()) return;
  if (fresh) {
    if (demand->spread) demand->spread->settled(message.slot);
    demand->slots.push_back(message.slot);
    demand->heard.push_back(message.slot);
    // The head counts this slot against the demand, so the remaining demand is sent again even if
    // its size is equal.
    demand->dirty = true;
  }
  if (!slot->executor.empty()) {
    const bool next = message.generation == slot->generation + 1;
    end_stream(slot->executor, next ? message.previous : end_unheard_of());
  }
  slot = &slots_.at(message.slot);
  slot->demand_class = message.demand_class;
  slot->node = message.node;
  slot->generation = message.generation;
  slot->executor = message.endpoint.process;
  slot->idle_since = now_;
  slot->used = false;
  slot->holds_results = false;
  demand = &classes_.at(message.demand_class);
  demand->waiting_reason.clear();
  demand->warned = false;
  StreamRow& stream = open_stream(message.endpoint);
  stream.slot = message.slot;
  // Without a call, this message opens the connection, so that the next call does not wait for one.
  if (demand->queue.empty()) send_acknowledgement(stream);
  stale_.push_back(message.demand_class);
}

void ClientCore::head_says(const GenerationEnded& message) {
  auto* slot = slots_.find(message.slot);
  if (slot != nullptr && !slot->executor.empty() && slot->generation <= message.generation) {
    const ProcessId known = std::exchange(slot->executor, {});
    if (known != message.process) {
      mark_unheard_end.hit();
      end_stream(known, end_unheard_of());
    }
  }
  end_stream(message.process, message.cause);
}

void ClientCore::head_says(const SlotLost& message) {
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
    if (!executor.empty()) end_stream(executor, message.cause);
  }
  forget_slot(message.slot);
  stale_.push_back(demand_class);
}

void ClientCore::head_says(const RecallSlot& message) {
  auto* slot = slots_.find(message.slot);
  if (slot == nullptr) {
    settle_spread(classes_, message.slot, stale_);
    returned_.remember(message.slot, true);  // SlotReady may be on its way
    return tell_head(ReturnSlot{message.slot});
  }
  slot->recalled = true;
  auto* stream = streams_.find(slot->executor);
  if (stream && !stream->in_flight.empty()) {
    mark_recalled_busy.hit();
    if (stream->in_flight.size() > 1) say(*stream, ReturnCallsRequest{});
    if (message.running != RunningTask::finishes) preempt(message, *stream);
  }
  stale_.push_back(slot->demand_class);
}

// The oldest call without a reply is the running one. The reply, or the end of its executor,
// returns it.
void ClientCore::preempt(const RecallSlot& message, StreamRow& stream) {
  const auto& [number, task] = *stream.in_flight.begin();
  TaskRow& row = tasks_.at(task);
  const bool may_end = row.retries_left != 0 && !row.cancelled;
  if (!may_end) mark_preemption_refused.hit();
  if (!may_end || message.running == RunningTask::is_asked_about) {
    return tell_head(PreemptionAnswer{message.slot, may_end, row.call.form->name});
  }
  if (row.preempted) return;
  row.preempted = true;
  say(stream, CancelCall{number, false, true});  // its children are cancelled with it
}

void ClientCore::return_slot(SlotId slot) {
  const ProcessId executor = slots_.at(slot).executor;
  tell_head(ReturnSlot{slot});
  returned_.remember(slot, true);
  forget_slot(slot);
  if (!executor.empty() && streams_.contains(executor)) {
    streams_.erase(executor);
    emit(CloseStream{executor});
  }
}

// Returns idle slots of other classes that hold devices, before more devices are requested.
// Otherwise these slots decide which devices the new request gets.
void ClientCore::return_idle_devices(ClassId except) {
  std::vector<SlotId> idle;
  for (const auto& [id, row] : classes_) {
    if (id == except || !row.queue.empty() || !wants_devices(row.spec.request)) continue;
    for (const SlotId slot : row.slots) {
      const SlotRow& held = slots_.at(slot);
      const auto* stream = streams_.find(held.executor);
      const bool busy =
          (stream != nullptr && !stream->in_flight.empty()) || unheld_.any_of(held.executor);
      if (!busy && !held.holds_results) idle.push_back(slot);
    }
  }
  for (const SlotId slot : idle) return_slot(slot);
}

void ClientCore::forget_slot(SlotId slot) {
  const auto* row = slots_.find(slot);
  if (row == nullptr) return;
  if (auto* demand = classes_.find(row->demand_class)) {
    std::erase(demand->slots, slot);
    std::erase(demand->heard, slot);
  }
  slots_.erase(slot);
}

// ---- dispatch ----------------------------------------------------------------------------------

// Number of calls that may be at one executor of the class. It exceeds 1 only while the work that
// waits there is short (docs/decisions/0012-queue-several-short-calls-at-one-executor.md).
std::size_t ClientCore::pipeline_depth(const ClassRow& row) const {
  if (!row.measured) return 1;
  const auto run_ns = std::max<std::int64_t>(row.run_time.count(), 1000);
  const auto fits = static_cast<std::size_t>(options_.pipeline_work.count() / run_ns) + 1;
  std::size_t depth = std::min(fits, options_.max_pipeline);
  if (row.spec.max_calls > 0) depth = std::min(depth, static_cast<std::size_t>(row.spec.max_calls));
  return depth;
}

// Order among slots that take another call: bytes of argument tensors in the executor, bytes of
// arguments on its node, then fewest calls in flight. With the strategy Spread: fewest calls in
// flight, then fewest calls on the node.
std::optional<SlotId> ClientCore::best_slot(const ClassRow& row, const TaskRow& task,
                                            bool idle_only) const {
  const std::size_t depth = pipeline_depth(row);
  const bool unsent = static_cast<std::int64_t>(row.waiting()) > row.told;
  std::optional<SlotId> best;
  using Preference = std::array<std::int64_t, 3>;
  Preference best_preference{};
  for (const SlotId id : row.slots) {
    const SlotRow& slot = slots_.at(id);
    const auto* stream = streams_.find(slot.executor);
    if (slot.recalled || stream == nullptr || stream->ending || stream->retires) continue;
    const std::size_t load = stream->in_flight.size();
    if (load >= depth || (load > 0 && stream->one_at_a_time)) continue;
    // A task without retries never queues at an executor. If the executor dies, only its replies
    // show which call was running, and the last reply may be lost.
    if (load > 0 && task.retries_left == 0) continue;
    if (row.spread) {
      const bool was_idle = load == 0 && (!slot.used || slot.idle_since < task.since);
      if (!was_idle && (idle_only || !row.spread->is_planned(task.since, unsent))) continue;
      const Preference preference{-static_cast<std::int64_t>(load),
                                  -static_cast<std::int64_t>(row.spread->calls_on(slot.node)), 0};
      if (best && preference <= best_preference) continue;
      best = id;
      best_preference = preference;
      continue;
    }
    std::pair<std::int64_t, std::int64_t> bytes{};  // in the process, on its node
    for (const auto& argument : *task.call.arguments) {
      const auto* object = argument.is_ref ? objects_.find(argument.ref.object) : nullptr;
      if (object && object->value->in_store && object->value->location == slot.node) {
        bytes.second += object->value->size_bytes;
      }
      const ValueRecord* value = object != nullptr ? &*object->value
                                 : argument.is_ref ? nullptr
                                                   : &argument.value;
      if (value != nullptr) bytes.first += tensor_bytes_of(*value, slot.executor);
    }
    const Preference preference{bytes.first, bytes.second, -static_cast<std::int64_t>(load)};
    if (best && preference <= best_preference) continue;
    best = id;
    best_preference = preference;
  }
  return best;
}

void ClientCore::dispatch(ClassId demand_class) {
  auto* row = classes_.find(demand_class);
  if (row == nullptr) return;
  if (row->spread) {
    row->spread->expire(now_);
    while (dispatch_next(*row, true)) {
    }
    // Before a slot takes a second task, the head learns of all that wait.
    if (static_cast<std::int64_t>(row->waiting()) > row->told) tell_demand(*row);
  }
  while (!(row->spread && row->spread->keeps(row->waiting())) && dispatch_next(*row, false)) {
  }
  for (std::size_t i = 0; i < row->slots.size();) {
    const SlotId slot = row->slots[i];
    slot_idle(slot);
    if (i < row->slots.size() && row->slots[i] == slot) ++i;  // else it was returned
  }
  take_back_stuck(*row);
  tell_demand(*row);
  if (row->tasks == 0 && row->slots.empty() && row->told == 0) classes_.erase(demand_class);
}

// Sends the next task to a slot. Returns false if no task waits or no slot takes it.
bool ClientCore::dispatch_next(ClassRow& row, bool idle_only) {
  refill(row);
  if (row.queue.empty()) return false;
  const TaskId task = row.queue.front();
  const auto best = best_slot(row, tasks_.at(task), idle_only);
  if (!best) return false;
  row.queue.pop_front();
  if (waits_again(task) || fail_on_argument_errors(task)) return true;
  SlotRow& slot = slots_.at(*best);
  slot.used = true;
  if (row.spread) row.spread->took(slot.node);
  push(task, streams_.at(slot.executor), slot.executor);
  return true;
}

void ClientCore::push(TaskId task, StreamRow& stream, ProcessId executor) {
  TaskRow& row = tasks_.at(task);
  row.state = TaskState::sent;
  row.since_now(now_);
  row.started.reset();
  row.preempted = false;
  row.executor = executor;
  row.number = stream.next_number++;
  if (stream.in_flight.empty()) stream.last_reply = now_;
  if (!stream.in_flight.empty() && !stream.slot.empty()) mark_waits_there.hit();
  stream.in_flight.insert(row.number, task);
  PushCall push{row.number, resolved(row.call), stream.round};
  push.call.may_run_again = row.retries_left != 0 && !row.cancelled;
  say(stream, std::move(push));
}

// Keeps or returns a slot whose executor has no call of this process.
void ClientCore::slot_idle(SlotId id) {
  SlotRow& slot = slots_.at(id);
  const auto* stream = streams_.find(slot.executor);
  if (stream != nullptr && !stream->in_flight.empty()) return;
  if (unheld_.any_of(slot.executor)) return;
  // Resident: its results stay available until the head recalls the slot.
  if (slot.holds_results && !slot.recalled) return;
  const ClassRow& own = classes_.at(slot.demand_class);
  const bool others_wait = std::ranges::any_of(classes_, [&](const auto& each) {
    return each.first != slot.demand_class && !each.second.queue.empty();
  });
  const bool between_generations = stream == nullptr && !slot.recalled && !own.queue.empty();
  if (between_generations) return;
  const bool unused = own.queue.empty() || slot.recalled;
  if (!unused) return;
  if (slot.recalled || others_wait || now_ - slot.idle_since >= options_.idle_return)
    return_slot(id);
}

// Reclaims calls queued behind a long one, so that other slots can run them and the demand counts
// them.
void ClientCore::take_back_stuck(const ClassRow& row) {
  for (const SlotId id : row.slots) {
    auto* stream = streams_.find(slots_.at(id).executor);
    if (stream == nullptr || stream->in_flight.size() < 2 || stream->taking_back) continue;
    if (now_ - stream->last_reply < options_.rebalance_delay) continue;
    mark_stolen.hit();
    stream->taking_back = true;
    say(*stream, ReturnCallsRequest{});
  }
}

void ClientCore::tick_slots() {
  for (const auto& [id, row] : classes_) stale_.push_back(id);
}

}  // namespace mobula::internal::client
