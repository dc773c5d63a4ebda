// Actors in their owner and their callers: placement, restarts, and the order of calls.
#include <algorithm>

#include "base/coverage_mark.h"
#include "client/core/client_core.h"
#include "protocol/codec/codec.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_call_retried("client.actor_call_retried");
const CoverageMark mark_call_failed("client.actor_call_failed_by_its_executor");
const CoverageMark mark_sent_again("client.actor_calls_sent_again_behind_a_refused_one");
const CoverageMark mark_constructor_argument("client.constructor_argument_was_an_error");
const CoverageMark mark_found_ended("client.found_an_actor_that_it_has_ended");
const CoverageMark mark_handle_gone("client.last_handle_gone");

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
    error.text = "actor " + name + " could not be created: " +
                 (!cause ? "the error cannot be read"
                  : cause->remote_type.empty()
                      ? "its constructor failed: " + cause->text
                      : "its constructor threw " + cause->remote_type + ": " + cause->text);
  }
  return error;
}

}  // namespace

void ClientCore::on(const SubmitActor& event) {
  const ActorId actor = event.spec.actor;
  ActorRow row;
  row.spec = event.spec;
  row.owned = true;
  row.detached = event.spec.detached;
  row.fail_if_infeasible = event.fail_if_infeasible;
  row.max_task_retries = event.spec.max_task_retries;
  row.max_pending_calls = event.spec.max_pending_calls;
  row.argument_bytes = event.stored_bytes;
  pending_bytes_ += row.argument_bytes;
  actors_.insert(actor, std::move(row));
  ObjectRow& handle = own_object(handle_id(actor), TaskId());
  // Nothing counts the handles of a detached actor.
  handle.ref = RefRecord{handle_id(actor), event.spec.detached ? NodeId() : step_.node(),
                         step_.process(), actor};
  for (const auto& argument : *event.spec.constructor.arguments) {
    if (argument.is_ref) {
      pin(argument.ref);
    } else {
      escape_contained(argument.value);
      for (const auto& ref : argument.value.contained) pin(ref);
    }
  }
  ActorRow& added = actors_.at(actor);
  added.missing = count_missing(*event.spec.constructor.arguments);
  for (const auto& argument : *event.spec.constructor.arguments) {
    const auto* object = argument.is_ref ? objects_.find(argument.ref.object) : nullptr;
    if (object && !object->ready) waiting_actors_[argument.ref.object].push_back(actor);
  }
  if (added.missing == 0) ask_for_actor(actor);
}

void ClientCore::ask_for_actor(ActorId actor) {
  ActorRow& row = actors_.at(actor);
  if (row.asked || row.state == ActorState::dead) return;
  for (const auto& argument : *row.spec.constructor.arguments) {
    const auto* object = argument.is_ref ? objects_.find(argument.ref.object) : nullptr;
    if (object && object->value->is_error && !object->value->bytes.empty()) {
      mark_constructor_argument.hit();
      row.construction_error = *object->value;
      row.construction_error.in_store = false;
      return actor_died(actor);
    }
  }
  row.asked = true;
  row.asked_after = releases_sent_;
  CreateActor create{row.spec, row.fail_if_infeasible};
  create.spec.constructor = resolved(row.spec.constructor);
  create.spec.owner = step_.process();
  // Each incarnation fetches arguments that stay refs, so the home must know them.
  for (const auto& argument : *create.spec.constructor.arguments) {
    if (argument.is_ref) escape(argument.ref.object);
    for (const auto& ref : argument.value.contained) hold_now(ref.object);
  }
  if (wants_devices(create.spec.demand.request)) return_idle_devices({});
  step_.send_to_head(std::move(create));
}

void ClientCore::watch_actor(ActorId actor) {
  auto [row, fresh] = actors_.ensure(actor);
  if (row->owned || row->watched) return;
  row->watched = true;
  step_.send_to_head(WatchActor{actor, true});
}

// True if the head found an actor whose last handle in this process was released after the request.
// The head may then end the actor, so the request is repeated behind the release.
bool ClientCore::asks_again(const FindActorReply& message) {
  const auto* find = finds_.find(message.request);
  auto* wanted = message.wanted.empty() ? nullptr : actors_.find(message.wanted);
  const std::uint64_t asked_after = wanted != nullptr ? wanted->asked_after
                                    : find != nullptr ? find->asked_after
                                                      : releases_sent_;
  const auto* released = released_.find(message.actor);
  const bool is_stale = message.found && released != nullptr && *released > asked_after;
  if (is_stale && wanted != nullptr) {
    mark_found_ended.hit();
    wanted->asked = false;
    ask_for_actor(message.wanted);
  } else if (is_stale) {
    mark_found_ended.hit();
    on(AskHead{FindActor(find->question)});
  } else {
    finds_.forget(message.request);
  }
  return is_stale;
}

void ClientCore::on(const AskHead& event) {
  if (const auto* find = std::get_if<FindActor>(&event.question))
    finds_.remember(find->request, {*find, releases_sent_});
  step_.send_to_head(event.question);
}

void ClientCore::head_says(const FindActorReply& message) {
  if (asks_again(message)) return;
  if (message.found && !message.actor.empty()) {
    auto [row, fresh] = actors_.ensure(message.actor);
    if (fresh) {
      row->detached = message.detached;
      row->max_task_retries = message.max_task_retries;
    }
    if (!row->max_pending_calls) row->max_pending_calls = message.max_pending_calls;
  }
  step_.emit(HeadAnswered{message});
}

void ClientCore::head_says(const ActorChanged& message) {
  if (message.state == ActorState::dead) endings_.forget(message.actor);
  auto* row = actors_.find(message.actor);
  if (row == nullptr || message.version <= row->version || row->state == ActorState::dead) return;
  row->version = message.version;
  if (!row->owned) {
    row->max_task_retries = message.max_task_retries;
    row->max_pending_calls = message.max_pending_calls;
  }
  const ProcessId previous = row->executor;
  row->state = message.state;
  row->incarnation = message.incarnation;
  row->cause = message.cause;
  if (message.state != ActorState::placing) row->waiting_reason.clear();
  if (message.state == ActorState::alive) {
    constructor_over(*row);
    if (!previous.empty() && previous != message.endpoint.process)
      streams_.executor_ended(previous, message.cause);
    row = &actors_.at(message.actor);
    row->executor = message.endpoint.process;
    StreamRow& stream = streams_.open(message.endpoint);
    stream.actor = message.actor;
    changed(handle_id(message.actor));
    return advance_actor(message.actor);
  }
  if (message.state == ActorState::dead) {
    if (message.construction_error.is_error) row->construction_error = message.construction_error;
    if (message.refused) row->refusal = message.cause.text;
    return actor_died(message.actor);
  }
  if (!previous.empty() && message.state == ActorState::restarting)
    streams_.executor_ended(previous, message.cause);
  changed(handle_id(message.actor));
}

void ClientCore::constructor_over(ActorRow& actor) {
  pending_bytes_ -= std::exchange(actor.argument_bytes, 0);
}

void ClientCore::actor_died(ActorId actor) {
  ActorRow& row = actors_.at(actor);
  row.state = ActorState::dead;
  constructor_over(row);
  if (!row.executor.empty() && streams_.find(row.executor)) {
    streams_.executor_ended(row.executor, row.cause);
  } else {
    row.executor = {};
  }
  fail_actor_calls(actor);
  if (auto* dead = actors_.find(actor); dead != nullptr && dead->owned) {
    const CallRecord constructor = std::exchange(dead->spec.constructor, CallRecord{});
    release_arguments(constructor);
  }
  changed(handle_id(actor));
}

void ClientCore::fail_actor_calls(ActorId actor) {
  const auto* row = actors_.find(actor);
  if (row == nullptr) return;
  const ErrorRecord error = actor_error(*row, actor);
  const auto calls = std::exchange(actors_.at(actor).queue, {});
  for (const TaskId task : calls) finish_with_error(task, error);
}

// ---- calls -------------------------------------------------------------------------------------

void ClientCore::on(SubmitActorCall& event) {
  const ActorId actor = event.call.form->actor;
  const TaskId task = event.call.task;
  TaskRow& row = add_task(std::move(event.call), event.parent, event.stored_bytes);
  if (auto* handle = objects_.find(handle_id(actor))) ++handle->pins;
  auto [target, fresh] = actors_.ensure(actor);
  ++target->calls;
  row.retries_left = event.max_task_retries.value_or(target->max_task_retries);
  target->queue.push_back(task);
  if (row.missing == 0) row.state = TaskState::queued;
  if (target->state == ActorState::dead) return fail_actor_calls(actor);
  advance_actor(actor);
}

// Sends calls in submission order, each once its arguments are ready.
void ClientCore::advance_actor(ActorId actor) {
  while (true) {
    auto* row = actors_.find(actor);
    if (row == nullptr || row->queue.empty()) return;
    const TaskId task = row->queue.front();
    if (tasks_.at(task).missing > 0) return;
    auto* stream = streams_.find(row->executor);
    const bool open = row->state == ActorState::alive && stream && !stream->ending &&
                      !stream->retires && !stream->comes_back && !stream->try_at &&
                      stream->in_flight.size() < stream->room;
    if (row->state == ActorState::dead) return fail_actor_calls(actor);
    if (!open || waits_again(task)) return;
    row->queue.pop_front();
    if (fail_on_argument_errors(task)) continue;
    push(task, *stream, row->executor);
  }
}

// When all of them are back, they leave again behind the refused call, in submission order. Calls
// that run outside the order are not returned.
void ClientCore::end_wait_for_returns(ProcessId executor) {
  auto* stream = streams_.find(executor);
  if (stream == nullptr || !stream->comes_back) return;
  for (auto at = stream->in_flight.end(); at != stream->in_flight.begin();) {
    const auto& [number, task] = *--at;
    if (number < *stream->comes_back) break;
    if (!tasks_.at(task).call.form->beside) return;
  }
  mark_sent_again.hit();
  stream->comes_back.reset();
  if (std::exchange(stream->measure_room, false)) {
    const bool none = std::ranges::all_of(stream->in_flight, [&](const auto& each) {
      return tasks_.at(each.second).call.form->beside;
    });
    stream->room = stream->in_flight.size() + (none ? 1 : 0);
    if (none) stream->try_at = step_.now() + step_.options().queue_full_backoff;
    streams_.watch(*stream);
  }
  advance_actor(stream->actor);
}

std::string ClientCore::why_nothing_leaves(const ActorRow& actor) const {
  const auto* stream = streams_.find(actor.executor);
  if (stream == nullptr) return "";
  if (stream->try_at || stream->in_flight.size() >= stream->room) {
    return "so many calls wait at the actor that it takes no more of this process for now";
  }
  return stream->comes_back
             ? "a call was refused by the actor, and those sent behind it come back first"
             : "";
}

// Calls that were sent and got no reply may or may not have run. Calls with retries left are queued
// again first, in order, and the others fail. A planned exit leaves no such calls.
void ClientCore::conclude_actor_stream(StreamRow& stream, const EndCause& cause) {
  std::vector<TaskId> calls;
  for (const auto& [number, task] : stream.in_flight) calls.push_back(task);
  const ActorId actor = stream.actor;
  if (auto* row = actors_.find(actor)) {
    row->executor = row->executor == stream.endpoint.process ? ProcessId() : row->executor;
    if (row->cause.text.empty() && row->cause.kind == EndKind::exited) row->cause = cause;
  }
  for (const TaskId task : calls) {
    TaskRow& row = tasks_.at(task);
    if (row.cancelled) {
      finish_cancelled(task);
    } else if (row.retries_left != 0) {
      mark_call_retried.hit();
      if (row.retries_left > 0) --row.retries_left;
      ++row.call.attempt;
      requeue(task);
    } else {
      mark_call_failed.hit();
      auto error = actor_error(actors_.at(actor), actor);
      error.text += "; the call was sent and not answered, so it may have run";
      finish_with_error(task, std::move(error));
    }
  }
  advance_actor(actor);
}

void ClientCore::call_over(ActorId actor) {
  if (auto* row = actors_.find(actor)) --row->calls;
  unpin(handle_id(actor));
}

void ClientCore::on(const KillActor& event) {
  if (!actors_.contains(event.actor)) return;
  EndActor end{event.actor, true, event.no_restart, "killed by kill()"};
  if (!event.no_restart) return step_.send_to_head(std::move(end));
  end_actor(std::move(end));
  // Calls that this process makes from now on fail, whatever the head does first.
  ActorRow& row = actors_.at(event.actor);
  if (row.state == ActorState::dead) return;
  row.cause = EndCause{};
  row.cause.kind = EndKind::killed;
  row.cause.text = "killed by kill()";
  actor_died(event.actor);
}

// A failing head may not have received the order, so it is repeated to the next one until the actor
// is dead.
void ClientCore::end_actor(EndActor end) {
  released_.remember(end.actor, ++releases_sent_);
  endings_.remember(end.actor, end);
  step_.send_to_head(std::move(end));
}

// No handle is left in this process; for the owner, no handle is left in any process.
void ClientCore::forget_actor(ActorId actor) {
  auto* row = actors_.find(actor);
  if (row == nullptr) return;
  if (row->owned && !row->detached && row->state != ActorState::dead) {
    mark_handle_gone.hit();
    end_actor(EndActor{actor, false, true, "its last handle is gone"});
  }
  if (row->watched) {
    released_.remember(actor, ++releases_sent_);
    step_.send_to_head(WatchActor{actor, false});
  }
  constructor_over(*row);
  const ProcessId executor = row->executor;
  const CallRecord constructor = std::move(row->spec.constructor);
  const bool pinned = row->owned;
  actors_.erase(actor);
  if (pinned) release_arguments(constructor);
  if (!executor.empty()) streams_.close(executor);
}

}  // namespace mobula::internal::client
