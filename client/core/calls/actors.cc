#include "client/core/calls/actors.h"

#include <algorithm>
#include <utility>

#include "base/coverage_mark.h"
#include "client/core/calls/dispatch/class_rows.h"
#include "protocol/codec/codec.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_call_retried("client.actor_call_retried");
const CoverageMark mark_call_failed("client.actor_call_failed_by_its_executor");
const CoverageMark mark_sent_again("client.actor_calls_sent_again_behind_a_refused_one");
const CoverageMark mark_constructor_argument("client.constructor_argument_was_an_error");
const CoverageMark mark_found_ended("client.found_an_actor_that_it_has_ended");
const CoverageMark mark_entrusted("client.actor_entrusted_to_its_job");
const CoverageMark mark_handle_gone("client.last_handle_gone");

// Bounds of the error of one actor in the error of the next. Without them, the errors of a chain of
// actors, each with a result of the previous one as an argument, would grow with its length.
constexpr std::size_t max_cause_bytes = 16 << 10;
constexpr std::size_t max_cause_text = 1 << 10;

std::string shortened(const std::string& text) {
  return text.size() <= max_cause_text ? text : text.substr(0, max_cause_text) + " [...]";
}

Payload without_causes(ErrorRecord error) {
  error.cause = {};
  error.text = shortened(error.text);
  return Payload(encode(error));
}

ErrorRecord actor_error(const ActorRow& row, ActorId actor) {
  ErrorRecord error;
  error.kind = row.state == ActorState::dead ? ErrorKind::actor_died : ErrorKind::actor_unavailable;
  const auto name = row.spec.class_name.empty() ? actor.brief() : row.spec.class_name;
  error.text = "actor " + name;
  if (!row.refusal.empty()) {
    error.text += " could not be created: " + row.refusal;
    error.kind =
        row.cause.kind == EndKind::start_failed ? ErrorKind::unschedulable : ErrorKind::actor_died;
    error.resource = row.missing_resource;
  } else {
    error.text += ": its executor " + to_string(row.cause);
    if (row.state != ActorState::dead)
      error.text += "; it is being restarted, calls made now will be run";
  }
  if (row.cause.kind == EndKind::group_removed) error.kind = ErrorKind::placement_group_removed;
  error.end = row.cause.kind;
  error.pid = row.cause.pid;
  error.signal = row.cause.signal;
  error.exit_code = row.cause.exit_code;
  const bool crashed = row.cause.kind == EndKind::signalled || row.cause.kind == EndKind::exited ||
                       row.cause.kind == EndKind::out_of_memory;
  if (crashed) error.last_lines = row.cause.last_lines;
  error.actor = actor;
  if (row.construction_error.is_error) {
    error.kind = ErrorKind::actor_died;
    error.last_lines.clear();
    error.cause = row.construction_error.bytes;
    const auto cause = decode<ErrorRecord>(error.cause.bytes());
    if (cause && error.cause.size() > max_cause_bytes) error.cause = without_causes(*cause);
    error.text = "actor " + name + " could not be created: " +
                 (!cause ? "the error cannot be read"
                  : cause->remote_type.empty()
                      ? "its constructor failed: " + shortened(cause->text)
                      : "its constructor threw " + cause->remote_type + ": " + cause->text);
  }
  return error;
}

}  // namespace

void Actors::on(const SubmitActor& event) {
  const ActorId actor = event.spec.actor;
  ActorRow row;
  row.spec = event.spec;
  row.owned = true;
  row.detached = event.spec.detached;
  row.fail_if_infeasible = event.fail_if_infeasible;
  row.max_task_retries = event.spec.max_task_retries;
  row.max_pending_calls = event.spec.max_pending_calls;
  row.out_of_order = event.spec.out_of_order;
  row.argument_bytes = event.stored_bytes;
  port_.count_pending_bytes(row.argument_bytes);
  rows_.insert(actor, std::move(row));
  // Nothing counts the handles of a detached actor.
  objects_.own(handle_id(actor), TaskId()).ref = RefRecord{
      handle_id(actor), event.spec.detached ? NodeId() : step_.node(), step_.process(), actor};
  arguments_.pin(event.spec.constructor);
  const auto missing = arguments_.missing(*event.spec.constructor.arguments);
  rows_.at(actor).missing = missing.size();
  for (const ObjectId object : missing) waiting_[object].push_back(actor);
  if (missing.empty()) create(actor);
}

void Actors::argument_ready(ObjectId object) {
  auto* waiting = waiting_.find(object);
  if (waiting == nullptr) return;
  const auto actors = std::move(*waiting);
  waiting_.erase(object);
  for (const ActorId actor : actors) {
    auto* row = rows_.find(actor);
    if (row != nullptr && row->missing > 0 && --row->missing == 0) create(actor);
  }
}

void Actors::create(ActorId actor) {
  ActorRow& row = rows_.at(actor);
  if (row.requested || row.state == ActorState::dead) return;
  if (const ValueRecord* error = arguments_.error(row.spec.constructor)) {
    mark_constructor_argument.hit();
    row.construction_error = *error;
    row.construction_error.in_store = false;
    return died(actor);
  }
  row.requested = true;
  row.requested_after = releases_sent_;
  CreateActor request{row.spec, row.fail_if_infeasible, row.lived};
  request.spec.constructor = arguments_.sendable_constructor(row.spec.constructor);
  request.spec.owner = step_.process();
  if (wants_devices(request.spec.demand.request)) port_.return_idle_devices({});
  step_.send_to_head(std::move(request));
}

void Actors::watch(ActorId actor) {
  auto [row, fresh] = rows_.ensure(actor);
  if (row->owned || row->watched) return;
  row->watched = true;
  step_.send_to_head(WatchActor{actor, true});
}

// True if the head found an actor whose last handle in this process was released after the request.
// The head may then end the actor, so the request is repeated behind the release.
bool Actors::repeats_query(const FindActorReply& message) {
  const auto* find = finds_.find(message.request);
  auto* wanted = message.wanted.empty() ? nullptr : rows_.find(message.wanted);
  const std::uint64_t requested_after = wanted != nullptr ? wanted->requested_after
                                        : find != nullptr ? find->requested_after
                                                          : releases_sent_;
  const auto* released = released_.find(message.actor);
  const bool is_stale = message.found && released != nullptr && *released > requested_after;
  if (is_stale && wanted != nullptr) {
    mark_found_ended.hit();
    wanted->requested = false;
    create(message.wanted);
  } else if (is_stale) {
    mark_found_ended.hit();
    on(QueryHead{FindActor(find->question)});
  } else {
    finds_.forget(message.request);
  }
  return is_stale;
}

void Actors::on(const QueryHead& event) {
  if (const auto* find = std::get_if<FindActor>(&event.question))
    finds_.remember(find->request, {*find, releases_sent_});
  step_.send_to_head(event.question);
}

void Actors::on(const FindActorReply& message) {
  if (repeats_query(message)) return;
  const bool is_abandoned = !message.wanted.empty() && !rows_.contains(message.wanted);
  if (!message.found || message.actor.empty() || message.actor == message.wanted)
    return step_.emit(HeadAnswered{message});
  hold_found(message);
  if (is_abandoned) return objects_.on(ReleaseRef{handle_id(message.actor)});
  step_.emit(HeadAnswered{message});
}

// The reply counts as a handle. Without it, the release of the last other handle of this process
// could reach the head before the receiver of the reply holds the actor.
void Actors::hold_found(const FindActorReply& message) {
  auto [row, fresh] = rows_.ensure(message.actor);
  if (fresh) {
    row->detached = message.detached;
    row->max_task_retries = message.max_task_retries;
    row->out_of_order = message.out_of_order;
  }
  if (!row->max_pending_calls) row->max_pending_calls = message.max_pending_calls;
  objects_.on(AdoptRef{{handle_id(message.actor), message.detached ? NodeId() : message.owner_node,
                        message.owner, message.actor}});
}

void Actors::on(const DemandInfeasible& message) {
  auto* actor = rows_.find(message.actor);
  if (actor == nullptr) return;
  if (!message.fatal) {
    actor->waiting_reason = "Infeasible: " + message.summary;
    return step_.emit(Warn{"actor " + actor->spec.class_name + " waits: " + message.summary});
  }
  actor->refusal = message.summary;
  actor->missing_resource = missing_resource(message.reasons);
  actor->cause = EndCause{EndKind::start_failed, 0, 0, 0, message.summary, {}};
  died(message.actor);
}

void Actors::on(const ActorChanged& message) {
  if (message.state == ActorState::dead) endings_.forget(message.actor);
  auto* row = rows_.find(message.actor);
  if (row == nullptr || message.version <= row->version || row->state == ActorState::dead) return;
  row->version = message.version;
  if (!row->owned) {
    row->max_task_retries = message.max_task_retries;
    row->out_of_order = message.out_of_order;
    row->max_pending_calls = message.max_pending_calls;
  }
  const ProcessId previous = row->executor;
  row->state = message.state;
  row->incarnation = message.incarnation;
  row->cause = message.cause;
  if (message.state != ActorState::placing) row->waiting_reason.clear();
  if (message.state == ActorState::alive) {
    constructed(*row);
    if (!previous.empty() && previous != message.endpoint.process)
      streams_.executor_ended(previous, message.cause);
    row = rows_.find(message.actor);
    if (row == nullptr) return;  // the calls that have failed were its last users here
    row->lived = message.incarnation;
    row->executor = message.endpoint.process;
    StreamRow& stream = streams_.open(message.endpoint);
    stream.actor = message.actor;
    step_.emit(ObjectChanged{handle_id(message.actor)});
    return advance(message.actor);
  }
  if (message.state == ActorState::dead) {
    if (message.construction_error.is_error) row->construction_error = message.construction_error;
    if (message.refused) row->refusal = message.cause.text;
    return died(message.actor);
  }
  if (!previous.empty() && message.state == ActorState::restarting)
    streams_.executor_ended(previous, message.cause);
  step_.emit(ObjectChanged{handle_id(message.actor)});
}

void Actors::constructed(ActorRow& actor) {
  port_.count_pending_bytes(-std::exchange(actor.argument_bytes, 0));
}

void Actors::died(ActorId actor) {
  ActorRow& row = rows_.at(actor);
  row.state = ActorState::dead;
  constructed(row);
  if (!row.executor.empty() && streams_.find(row.executor)) {
    streams_.executor_ended(row.executor, row.cause);
  } else {
    row.executor = {};
  }
  fail_calls(actor);
  if (auto* dead = rows_.find(actor); dead != nullptr && dead->owned) {
    const CallRecord constructor = std::exchange(dead->spec.constructor, CallRecord{});
    arguments_.release(constructor);
  }
  step_.emit(ObjectChanged{handle_id(actor)});
}

void Actors::fail_calls(ActorId actor) {
  const auto* row = rows_.find(actor);
  if (row == nullptr) return;
  const ErrorRecord error = actor_error(*row, actor);
  for (const TaskId task : take_calls(actor)) port_.finish_with_error(task, error);
}

// ---- calls -------------------------------------------------------------------------------------

const ActorRow& Actors::add_call(ActorId actor, TaskId task, const CallForm& form) {
  ActorRow& row = *rows_.ensure(actor).first;
  if (auto* handle = objects_.find(handle_of(actor, row))) ++handle->pins;
  ++row.calls;
  row.queue.push_back(task, form);
  return row;
}

ObjectId Actors::handle_of(ActorId actor, ActorRow& row) {
  if (row.handle.empty()) row.handle = handle_id(actor);
  return row.handle;
}

void Actors::start_calls(ActorId actor) {
  if (rows_.at(actor).state == ActorState::dead) return fail_calls(actor);
  advance(actor);
}

void Actors::count_call(ActorId actor) { ++rows_.at(actor).calls; }

void Actors::requeue(ActorId actor, TaskId task) {
  rows_.at(actor).queue.insert(task, *port_.task_row(task).call.form, order_of());
}

void Actors::remove_call(ActorId actor, TaskId task) {
  rows_.at(actor).queue.remove(task, *port_.task_row(task).call.form);
}

TaskQueue Actors::take_calls(ActorId actor) {
  auto* row = rows_.find(actor);
  return row == nullptr ? TaskQueue() : row->queue.take_all(order_of());
}

// Sends calls of each group in submission order, each once its arguments are ready.
void Actors::advance(ActorId actor) {
  while (true) {
    auto* row = rows_.find(actor);
    if (row == nullptr || row->queue.empty()) return;
    auto* stream = streams_.find(row->executor);
    const auto may_leave = [&](TaskId task) {
      const TaskRow& call = port_.task_row(task);
      return call.missing == 0 && (!stream || !stream->awaits_returns(*call.call.form));
    };
    const auto next = row->queue.find_next(row->out_of_order, may_leave, order_of());
    if (!next) return;
    const bool open = row->state == ActorState::alive && stream && !stream->ending &&
                      !stream->retires && !stream->try_at &&
                      stream->in_flight.size() < stream->capacity;
    if (row->state == ActorState::dead) return fail_calls(actor);
    if (!open) return;
    if (port_.waits_again(next->task)) continue;
    row->queue.erase(*next);
    if (port_.fail_on_argument_errors(next->task)) continue;
    port_.push(next->task, *stream, row->executor);
  }
}

// When all calls of a group are back, they leave again behind the refused call, in submission
// order.
void Actors::end_wait_for_returns(ProcessId executor) {
  auto* stream = streams_.find(executor);
  if (stream == nullptr || stream->returning.empty()) return;
  const auto are_back = [&](const ReturningCalls& returning) {
    for (auto at = stream->in_flight.end(); at != stream->in_flight.begin();) {
      const auto& [number, task] = *--at;
      if (number < returning.first) break;
      if (returning.includes(*port_.task_row(task).call.form)) return false;
    }
    return true;
  };
  if (std::erase_if(stream->returning, are_back) == 0) return;
  mark_sent_again.hit();
  const bool some_return = std::ranges::any_of(
      stream->returning, [](const ReturningCalls& each) { return !each.group; });
  if (!some_return && std::exchange(stream->measure_capacity, false)) {
    const bool none = std::ranges::all_of(stream->in_flight, [&](const auto& each) {
      return port_.task_row(each.second).call.form->beside;
    });
    stream->capacity = stream->in_flight.size() + (none ? 1 : 0);
    if (none) stream->try_at = step_.now() + step_.options().queue_full_backoff;
    streams_.watch(*stream);
  }
  advance(stream->actor);
}

std::string Actors::why_nothing_leaves(const ActorRow& actor) const {
  const auto* stream = streams_.find(actor.executor);
  if (stream == nullptr) return "";
  if (stream->try_at || stream->in_flight.size() >= stream->capacity) {
    return "the call queue of the actor is full, and it accepts no more calls from this process "
           "for now";
  }
  return !stream->returning.empty()
             ? "the actor rejected a call, and the calls sent after it are returned first"
             : "";
}

// Calls that were sent and got no reply may or may not have run. Calls with retries left are queued
// again first, in order, and the others fail. A planned exit leaves no such calls.
void Actors::conclude(StreamRow& stream, const EndCause& cause) {
  std::vector<TaskId> calls;
  for (const auto& [number, task] : stream.in_flight) calls.push_back(task);
  const ActorId actor = stream.actor;
  if (auto* row = rows_.find(actor)) {
    row->executor = row->executor == stream.endpoint.process ? ProcessId() : row->executor;
    if (row->cause.text.empty() && row->cause.kind == EndKind::exited) row->cause = cause;
  }
  for (const TaskId task : calls) {
    TaskRow& row = port_.task_row(task);
    if (row.cancelled) {
      port_.finish_cancelled(task);
    } else if (row.retries_left != 0) {
      mark_call_retried.hit();
      if (row.retries_left > 0) --row.retries_left;
      ++row.call.attempt;
      port_.requeue(task);
    } else {
      mark_call_failed.hit();
      auto error = actor_error(rows_.at(actor), actor);
      error.text += "; the call was sent, and no reply arrived, so it may have run";
      port_.finish_with_error(task, std::move(error));
    }
  }
  advance(actor);
}

void Actors::call_over(ActorId actor) {
  auto* row = rows_.find(actor);
  if (row != nullptr) --row->calls;
  objects_.unpin(row != nullptr ? handle_of(actor, *row) : handle_id(actor));
}

void Actors::on(const KillActor& event) {
  if (!rows_.contains(event.actor)) return;
  EndActor end{event.actor, true, event.no_restart, "killed by kill()"};
  if (!event.no_restart) return step_.send_to_head(std::move(end));
  request_end(std::move(end));
  // Calls that this process makes from now on fail, whatever the head does first.
  ActorRow& row = rows_.at(event.actor);
  if (row.state == ActorState::dead) return;
  row.cause = EndCause{};
  row.cause.kind = EndKind::killed;
  row.cause.text = "killed by kill()";
  died(event.actor);
}

// A failing head may not have received the order, so it is repeated to the next one until the actor
// is dead.
void Actors::request_end(EndActor end) {
  released_.remember(end.actor, ++releases_sent_);
  endings_.remember(end.actor, end);
  step_.send_to_head(std::move(end));
}

// No handle is left in this process; for the owner, no handle is left in any process.
void Actors::forget(ActorId actor) {
  auto* row = rows_.find(actor);
  if (row == nullptr) return;
  if (row->owned && !row->detached && row->state != ActorState::dead) {
    mark_handle_gone.hit();
    request_end(EndActor{actor, false, true, "its last handle was released"});
  }
  if (row->watched) {
    released_.remember(actor, ++releases_sent_);
    step_.send_to_head(WatchActor{actor, false});
  }
  constructed(*row);
  const ProcessId executor = row->executor;
  const CallRecord constructor = std::move(row->spec.constructor);
  const bool pinned = row->owned;
  rows_.erase(actor);
  if (pinned) arguments_.release(constructor);
  if (!executor.empty()) streams_.close(executor);
}

// ---- the head, the job, and the end of the process ----------------------------------------------

void Actors::restate() {
  for (auto& [id, row] : rows_) {
    row.version = 0;
    if (row.owned && row.requested && row.state != ActorState::dead) {
      row.requested = false;
      create(id);
    } else if (row.watched) {
      step_.send_to_head(WatchActor{id, true});
    }
  }
  for (const auto& [actor, ending] : endings_) step_.send_to_head(ending);
}

void Actors::end_all(const EndCause& cause) {
  std::vector<ActorId> actors;
  for (const auto& [actor, row] : rows_) {
    if (row.owned && row.state != ActorState::dead) actors.push_back(actor);
  }
  for (const ActorId actor : actors) {
    rows_.at(actor).cause = cause;
    died(actor);
  }
}

// Until the head acknowledges an actor, the request for it may be lost with a connection.
bool Actors::is_acknowledged(const ActorRow& actor) {
  return !actor.owned || actor.state == ActorState::dead || actor.version > 0;
}

// Handles in other processes keep an actor alive, even without its owner.
void Actors::entrust() {
  for (const auto& [actor, row] : rows_) {
    if (!row.owned || row.detached || row.state == ActorState::dead) continue;
    const auto* handle = objects_.find(handle_id(actor));
    if (handle != nullptr && handle->exported) {
      mark_entrusted.hit();
      step_.send_to_agent(ExportObject{handle_id(actor), false, actor});
    } else {
      request_end(EndActor{actor, false, true, "its last handle was released"});
    }
  }
}

}  // namespace mobula::internal::client
