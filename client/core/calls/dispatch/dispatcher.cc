#include "client/core/calls/dispatch/dispatcher.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/coverage_mark.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_stolen("client.calls_taken_back_from_behind_another");
const CoverageMark mark_infeasible("client.class_infeasible");

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

// True if time alone does not end the use of the slot: its executor holds contents of a reply that
// are not claimed yet, or results, which stay available until the head recalls the slot.
bool stays_idle(const CallStreams& streams, const SlotRow& slot) {
  return streams.has_unclaimed(slot.executor) || (slot.holds_results && !slot.recalled);
}

}  // namespace

// ---- demand ------------------------------------------------------------------------------------

void Dispatcher::report_demand(ClassRow& row) {
  class_clocks_.changed(row.spec.id, row);
  const auto wanted = static_cast<std::int64_t>(row.waiting());
  row.dirty = wanted != row.reported || (row.dirty && wanted > 0);
  if (!row.dirty) return;
  const bool edge = wanted == 0 || row.reported <= 0;
  if (step_.now() >= row.demand_due(step_.options().demand_report_interval)) {
    row.early_reports = 0;
  } else if (!edge || row.early_reports++ >= max_early_reports) {
    return;
  }
  if (wanted > 0 && row.reported <= 0 && wants_devices(row.spec.request))
    return_idle_devices(row.spec.id);
  Demand demand;
  demand.demand_class = row.spec;
  demand.version = ++demand_version_;
  demand.wanted_slots = wanted;
  demand.waiting_tasks = wanted;
  demand.fail_if_infeasible = row.fail_if_infeasible;
  demand.mean_run = row.run_time;
  if (!row.queue.empty()) {
    const TaskRow& oldest = port_.task_row(row.queue.front());
    demand.oldest_wait = step_.now() - oldest.since;
    demand.example_name = oldest.call.form->name;
  }
  std::map<NodeId, std::int64_t> preferences;
  for (std::size_t i = 0; i < std::min<std::size_t>(row.queue.size(), 64); ++i) {
    for (const auto& argument : *port_.task_row(row.queue[i]).call.arguments) {
      const auto* object = argument.is_ref ? port_.object_row(argument.ref.object) : nullptr;
      if (object && object->ready && object->value->in_store)
        ++preferences[object->value->location];
    }
  }
  for (const auto& [node, tasks] : preferences) demand.locality.push_back({node, tasks});
  demand.received = std::exchange(row.received, {});
  demand.report_plan = row.spread && wanted > std::max<std::int64_t>(row.reported, 0);
  if (demand.report_plan) row.spread->demanded(demand.version, step_.now());
  row.reported = wanted;
  row.dirty = false;
  row.tell_after = step_.now() + step_.options().demand_report_interval;
  step_.send_to_head(std::move(demand));
}

void Dispatcher::on(const DemandInfeasible& message) {
  auto* row = classes_.find(message.demand_class);
  if (row == nullptr) return;
  mark_infeasible.hit();
  row->waiting_reason = "Infeasible: " + message.summary;
  if (!message.fatal) {
    if (!row->warned)
      step_.emit(Warn{"tasks wait that no present node can run: " + message.summary});
    row->warned = true;
    return;
  }
  fail_queued(message.demand_class,
              message.group_removed ? ErrorKind::placement_group_removed : ErrorKind::unschedulable,
              " can never be scheduled: " + message.summary, missing_resource(message.reasons));
}

void Dispatcher::on(const DemandPlanned& message) {
  auto* row = classes_.find(message.demand_class);
  if (row == nullptr || !row->spread) return;
  std::vector<SlotId> starting;
  for (const SlotId slot : message.starting) {
    if (!slots_.contains(slot) && !returned_.contains(slot)) starting.push_back(slot);
  }
  row->spread->planned(message.version, starting, step_.now());
  stale_.push_back(message.demand_class);
}

// ---- dispatch ----------------------------------------------------------------------------------

// Number of calls that may be at one executor of the class. It exceeds 1 only while the work that
// waits there is short (docs/decisions/0012-queue-several-short-calls-at-one-executor.md).
std::size_t Dispatcher::pipeline_depth(const ClassRow& row) const {
  if (!row.measured) return 1;
  const auto run_ns = std::max<std::int64_t>(row.run_time.count(), 1000);
  const auto fits = static_cast<std::size_t>(step_.options().pipeline_work.count() / run_ns) + 1;
  std::size_t depth = std::min(fits, step_.options().max_pipeline);
  if (row.spec.max_calls > 0) depth = std::min(depth, static_cast<std::size_t>(row.spec.max_calls));
  return depth;
}

// Order among slots that take another call: bytes of argument tensors in the executor, bytes of
// arguments on its node, then fewest calls in flight. With the strategy Spread: fewest calls in
// flight, then fewest calls on the node.
std::optional<SlotId> Dispatcher::best_slot(const ClassRow& row, const TaskRow& task,
                                            bool idle_only) const {
  const std::size_t depth = pipeline_depth(row);
  const bool unsent = static_cast<std::int64_t>(row.waiting()) > row.reported;
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
      const auto* object = argument.is_ref ? port_.object_row(argument.ref.object) : nullptr;
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

void Dispatcher::dispatch(ClassId demand_class) {
  auto* row = classes_.find(demand_class);
  if (row == nullptr) return;
  visited_rows_ += 1 + row->slots.size();
  if (row->spread) {
    row->spread->expire(step_.now());
    while (dispatch_next(*row, true)) {
    }
    // Before a slot takes a second task, the head receives the count of waiting tasks.
    if (static_cast<std::int64_t>(row->waiting()) > row->reported) report_demand(*row);
  }
  while (!(row->spread && row->spread->keeps(row->waiting())) && dispatch_next(*row, false)) {
  }
  bool stuck = false;
  for (std::size_t i = 0; i < row->slots.size();) {
    const SlotId slot = row->slots[i];
    stuck |= slot_idle(slot, *row);
    if (i < row->slots.size() && row->slots[i] == slot) ++i;  // else it was returned
  }
  if (stuck) take_back_stuck(*row);
  report_demand(*row);
  if (row->tasks > 0 || !row->slots.empty() || row->reported != 0) return;
  class_clocks_.remove(*row);
  classes_.erase(demand_class);
}

// Sends the next task to a slot. Returns false if no task waits or no slot takes it.
bool Dispatcher::dispatch_next(ClassRow& row, bool idle_only) {
  refill(row);
  if (row.queue.empty()) return false;
  const TaskId task = row.queue.front();
  const auto best = best_slot(row, port_.task_row(task), idle_only);
  if (!best) return false;
  row.queue.pop_front();
  class_clocks_.queue_changed(row);
  if (port_.waits_again(task) || port_.fail_on_argument_errors(task)) return true;
  SlotRow& slot = slots_.at(*best);
  slot.used = true;
  if (row.spread) row.spread->took(slot.node);
  port_.push(task, streams_.at(slot.executor), slot.executor);
  return true;
}

// Keeps or returns a slot whose executor has no call of this process. Returns true if calls are
// stuck at its executor.
bool Dispatcher::slot_idle(SlotId id, const ClassRow& own) {
  SlotRow& slot = slots_.at(id);
  const auto* stream = streams_.find(slot.executor);
  if (stream != nullptr && !stream->in_flight.empty()) return is_stuck(*stream);
  if (stays_idle(streams_, slot)) return false;
  const bool between_generations = stream == nullptr && !slot.recalled && !own.queue.empty();
  if (between_generations) return false;
  const bool unused = own.queue.empty() || slot.recalled;
  if (!unused) return false;
  if (slot.recalled || class_clocks_.others_wait(own) ||
      step_.now() - slot.idle_since >= step_.options().idle_return)
    return_slot(id);
  return false;
}

// True if calls are queued behind a long one, and are not being returned.
bool Dispatcher::is_stuck(const StreamRow& stream) const {
  return stream.in_flight.size() >= 2 && !stream.taking_back &&
         step_.now() - stream.last_reply >= step_.options().rebalance_delay;
}

// Reclaims calls queued behind a long one, so that other slots can run them and the demand counts
// them.
void Dispatcher::take_back_stuck(const ClassRow& row) {
  for (const SlotId id : row.slots) {
    auto* stream = streams_.find(slots_.at(id).executor);
    if (stream == nullptr || !is_stuck(*stream)) continue;
    mark_stolen.hit();
    stream->taking_back = true;
    streams_.say(*stream, ReturnCallsRequest{});
  }
}

void Dispatcher::tick() {
  const bool may_wait = port_.retries_due();
  for (const ClassId id : class_clocks_.take_due(classes_, step_.now(), may_wait))
    stale_.push_back(id);
}

ClassClocks::Reading Dispatcher::read_clock(const ClassRow& row) const {
  ClassClocks::Reading reading;
  const auto consider = [&](std::optional<Time> at) {
    if (at && (!reading.deadline || *at < *reading.deadline)) reading.deadline = at;
  };
  const bool waits = !row.queue.empty();
  const bool is_over = row.tasks == 0 && row.slots.empty() && row.reported == 0;
  reading.has_slots = !row.slots.empty();
  reading.unsettled = waits || is_over;
  if (row.dirty) consider(row.demand_due(step_.options().demand_report_interval));
  if (row.spread) consider(row.spread->next_deadline());
  visited_rows_ += 1 + row.slots.size();
  for (const SlotId id : row.slots) {
    const SlotRow& slot = slots_.at(id);
    const auto* stream = streams_.find(slot.executor);
    if (stream == nullptr) {
      reading.unsettled = true;
    } else if (stream->in_flight.empty() && !waits) {
      if (!stays_idle(streams_, slot)) consider(slot.idle_since + step_.options().idle_return);
    } else if (stream->in_flight.size() > 1 && !stream->taking_back) {
      consider(stream->last_reply + step_.options().rebalance_delay);
    }
  }
  return reading;
}

void Dispatcher::dispatch_changed() {
  while (!stale_.empty()) {
    const ClassId demand_class = stale_.back();
    stale_.pop_back();
    dispatch(demand_class);
  }
}

void Dispatcher::settle() {
  class_clocks_.settle(classes_, [this](const ClassRow& row) { return read_clock(row); });
}

bool Dispatcher::deadlines_are_exact() const {
  return class_clocks_.is_exact(classes_, [this](const ClassRow& row) { return read_clock(row); });
}

// Asymmetric moving average: fast attack, slow decay.
void Dispatcher::measure(ClassId demand_class, Duration run_time) {
  auto* row = classes_.find(demand_class);
  if (row == nullptr) return;
  if (!std::exchange(row->measured, true)) {
    row->run_time = run_time;
  } else if (run_time > row->run_time) {
    row->run_time = (row->run_time + run_time) / 2;
  } else {
    row->run_time = (7 * row->run_time + run_time) / 8;
  }
}

}  // namespace mobula::internal::client
