#include "client/core/calls/tasks.h"

#include <algorithm>
#include <utility>

#include "base/coverage_mark.h"
#include "base/model/tensor_refs.h"
#include "client/core/calls/reply_contents.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_argument_error("client.task_failed_by_its_argument");
const CoverageMark mark_charged("client.argument_lost_in_transit");
const CoverageMark mark_retry("client.task_retried_after_a_crash");
const CoverageMark mark_exception_retry("client.task_retried_after_an_exception");
const CoverageMark mark_memory("client.task_waits_after_it_was_ended_for_memory");
const CoverageMark mark_exhausted("client.task_out_of_retries");
const CoverageMark mark_cancelled_unsent("client.cancelled_before_it_was_sent");
const CoverageMark mark_queue_full("client.actor_queue_was_full");
const CoverageMark mark_preempted("client.task_preempted");

// True if the row differs from that of a new result in its counts and subscriptions alone.
bool is_plain(const ObjectRow& row) {
  return row.owned && row.refs > 0 && row.pins == 0 && !row.ready && !row.exported &&
         !row.released && !row.storing && row.ref.is_empty() && row.reading.is_empty();
}

}  // namespace

TaskRow& Tasks::add_task(CallRecord call_given, TaskId parent, std::int64_t stored_bytes) {
  const TaskId task = call_given.task;
  TaskRow& row = rows_[task];
  row.call = std::move(call_given);
  const CallRecord& call = row.call;
  row.parent = parent;
  row.order = ++submissions_;
  row.since = step_.now();
  row.live_results = call.form->num_returns;
  row.first_result = result_id(task, 0);
  row.argument_bytes = stored_bytes;
  arguments_.pin(call);
  for (const auto& argument : *call.arguments) {
    if (!argument.is_ref) row.argument_bytes += argument.value.size_bytes;
  }
  pending_bytes_ += row.argument_bytes;
  if (call.form->num_returns > 0) {
    objects_.own(row.first_result, task).position = call.form->stream.window != 0;
  }
  for (std::uint32_t i = 1; i < call.form->num_returns; ++i) objects_.own(result_id(task, i), task);
  row.missing = arguments_.count_missing(*call.arguments);
  if (row.missing > 0) waits_.await(task, *call.arguments);
  return row;
}

void Tasks::on(SubmitTask& event) {
  const TaskId task = event.call.task;
  // A task that is far from its turn needs no rows.
  if (dispatcher_.is_far(event.demand_class.id)) {
    TaskRow far;
    far.call = std::move(event.call);
    far.live_results = far.call.form->num_returns;
    far.first_result = result_id(task, 0);
    if (CompactQueue::fits(far) && !rows_.contains(task) &&
        objects_.find(far.first_result) == nullptr) {
      ++submissions_;
      far.demand_class = event.demand_class.id;
      far.parent = event.parent;
      far.since = step_.now();
      far.retries_left = event.max_retries;
      if (far.call.form->retry_exceptions != event.retry_exceptions)
        far.call.form.edit().retry_exceptions = event.retry_exceptions;
      pending_bytes_ += event.stored_bytes;
      for (const auto& each : *far.call.arguments) pending_bytes_ += each.value.size_bytes;
      ends_.begin(far);
      dispatcher_.add_task(std::move(event.demand_class), event.fail_if_infeasible);
      return dispatcher_.join_far(task, far);
    }
    event.call = std::move(far.call);
  }
  TaskRow& row = add_task(std::move(event.call), event.parent, event.stored_bytes);
  row.demand_class = event.demand_class.id;
  row.retries_left = event.max_retries;
  if (row.call.form->retry_exceptions != event.retry_exceptions) {
    row.call.form.edit().retry_exceptions = event.retry_exceptions;
  }
  ends_.begin(row);
  dispatcher_.add_task(std::move(event.demand_class), event.fail_if_infeasible);
  if (row.missing == 0) task_ready(task);
}

void Tasks::on(SubmitActorCall& event) {
  const ActorId actor = event.call.form->actor;
  const TaskId task = event.call.task;
  TaskRow& row = add_task(std::move(event.call), event.parent, event.stored_bytes);
  ends_.begin(row);
  const ActorRow& target = actors_.add_call(actor, task, *row.call.form);
  row.retries_left = event.max_task_retries.value_or(target.max_task_retries);
  if (row.missing == 0) row.state = TaskState::queued;
  actors_.start_calls(actor);
}

// ---- arguments ----------------------------------------------------------------------------------

void Tasks::argument_ready(ObjectId object) {
  if (!waits_.has_waiters(object) && !actors_.awaits(object)) return;
  served_.run(object, [this](ObjectId each) { serve_waiters(each); });
}

void Tasks::serve_waiters(ObjectId object) {
  for (const TaskId task : waits_.take_waiters(object)) {
    auto* row = rows_.find(task);
    if (row == nullptr || row->state == TaskState::finished || row->missing == 0) continue;
    if (--row->missing == 0) task_ready(task);
  }
  actors_.argument_ready(object);
}

void Tasks::task_ready(TaskId task) {
  TaskRow& row = rows_.at(task);
  if (row.call.form->kind == CallKind::actor_call) {
    row.state = TaskState::queued;
    row.since_now(step_.now());
    return actors_.advance(row.call.form->actor);
  }
  if (fail_on_argument_errors(task)) return;
  row.state = TaskState::queued;
  row.since_now(step_.now());
  dispatcher_.join(task, row);
}

// A call with an error as an argument ends with that error and never runs.
bool Tasks::fail_on_argument_errors(TaskId task) {
  for (const auto& argument : *rows_.at(task).call.arguments) {
    if (!argument.is_ref) continue;
    const auto* row = objects_.find(argument.ref.object);
    if (row == nullptr || !row->ready || !row->value->is_error || row->value->bytes.empty())
      continue;
    if (const auto pause = unread_.await_owner(rows_.at(task), argument.ref.object)) {
      pause_task(task, *pause);
      return true;
    }
    mark_argument_error.hit();
    ends_.mark_read(row->creator);  // the failure of this call replaces it
    ValueRecord error = *row->value;
    error.in_store = false;
    finish(task, Results(rows_.at(task).call.form->num_returns, error));
    return true;
  }
  return false;
}

// ---- queues of demand classes ------------------------------------------------------------------

void Tasks::push(TaskId task, StreamRow& stream, ProcessId executor) {
  TaskRow& row = rows_.at(task);
  row.state = TaskState::sent;
  row.since_now(step_.now());
  row.started.reset();
  row.preempted = false;
  row.executor = executor;
  row.number = streams_.add_call(stream, task);
  PushCall push{row.number, arguments_.resolved(row.call), stream.round};
  if (row.call.form->stream.window != 0) {
    push.call.form.edit().stream = items_.start_run(task, row.call.form->stream);
  }
  push.call.may_run_again = row.retries_left != 0 && !row.cancelled;
  streams_.say(stream, std::move(push));
}

std::optional<Dispatcher::Port::ResultCounts> Tasks::plain_result(ObjectId result) const {
  const auto* row = objects_.find(result);
  if (row == nullptr || !is_plain(*row)) return std::nullopt;
  return ResultCounts{row->refs, row->wants, row->watchers};
}

void Tasks::erase_rows(TaskId task, ObjectId result) {
  objects_.erase_row(result);
  rows_.erase(task);
}

void Tasks::add_rows(CompactQueue::Expanded small) {
  if (small.refs > 0) {
    ObjectRow& result = objects_.own(small.result, small.task);
    result.refs = small.refs;
    result.wants = small.wants;
    result.watchers = small.watchers;
  }
  rows_.insert(small.task, std::move(small.row));
}

// ---- ends --------------------------------------------------------------------------------------

void Tasks::finish(TaskId task, Results results) {
  TaskRow& ended = rows_.at(task);
  ends_.record(task, ended, results);
  ended.state = TaskState::finished;
  ended.since = step_.now();
  ended.executor = {};
  pending_bytes_ -= ended.argument_bytes;
  ended.argument_bytes = 0;
  const CallForm& form = *ended.call.form;
  if (form.stream.window != 0) return finish_stream(task, results);
  // The row may be erased with the last result.
  const auto kind = form.kind;
  const ActorId actor = form.actor;
  const auto num_returns = form.num_returns;
  const ObjectId first_result = ended.first_result;
  bool stored = false;  // true also if tensor elements of a result stay in another process
  for (std::uint32_t i = 0; i < num_returns; ++i) {
    // One error replaces all results.
    const bool shared = results.size() < num_returns;
    ValueRecord value = results.empty() ? ValueRecord{}
                        : shared        ? results.front()
                                        : std::move(results[i]);
    const bool apart = !value.is_error && std::ranges::any_of(value.contained, is_pulled_tensor);
    stored |= apart || (value.in_store && kind == CallKind::task);
    objects_.complete(i == 0 ? first_result : result_id(task, i), std::move(value));
  }
  if (kind == CallKind::actor_call) actors_.call_over(actor);
  auto* row = rows_.find(task);
  if (row == nullptr) return;  // no result was in use
  const bool lineage = stored && row->retries_left != 0 && !row->cancelled;
  if (!lineage || row->live_results == 0) return forget_task(task);
  keep_as_lineage(task);
}

void Tasks::forget_task(TaskId task) {
  lineage_.remove(task);
  const TaskRow row = rows_.take(task);
  if (row.call.form->stream.window != 0) items_.forget(task);
  if (row.call.form->kind == CallKind::task) dispatcher_.remove_task(row.demand_class);
  arguments_.release(row.call);
}

void Tasks::result_dropped(TaskId creator) {
  auto* task = rows_.find(creator);
  if (task == nullptr) return;
  if (task->live_results > 0) --task->live_results;
  if (task->call.form->stream.window != 0) items_.note_dropped(creator);
  if (task->live_results == 0 && task->state == TaskState::finished) forget_task(creator);
}

void Tasks::finish_with_error(TaskId task, ErrorRecord error) {
  const TaskRow& row = rows_.at(task);
  error.task = task;
  error.task_name = row.call.form->name;
  finish(task, Results(std::max<std::uint32_t>(1, row.call.form->num_returns), error_value(error)));
}

void Tasks::finish_cancelled(TaskId task) {
  ErrorRecord error;
  error.kind = ErrorKind::task_cancelled;
  error.text = "task " + rows_.at(task).call.form->name + " was cancelled";
  finish_with_error(task, std::move(error));
}

// The executor that ran the task ended before it replied.
void Tasks::attempt_failed(TaskId task, const EndCause& cause) {
  TaskRow& row = rows_.at(task);
  if (row.cancelled) return finish_cancelled(task);
  if (cause.kind == EndKind::group_removed) {
    ErrorRecord error;
    error.kind = ErrorKind::placement_group_removed;
    error.text = "task " + row.call.form->name + ": its executor " + to_string(cause);
    return finish_with_error(task, std::move(error));
  }
  if (row.preempted) return run_again_uncharged(task);
  if (row.retries_left != 0) {
    mark_retry.hit();
    if (row.retries_left > 0) --row.retries_left;
    ++row.call.attempt;
    return cause.kind == EndKind::out_of_memory ? resubmit_later(task) : resubmit(task);
  }
  mark_exhausted.hit();
  ErrorRecord error;
  error.kind =
      cause.kind == EndKind::out_of_memory ? ErrorKind::out_of_memory : ErrorKind::worker_crashed;
  error.text = "task " + row.call.form->name + ": its executor " + to_string(cause) + "; attempt " +
               std::to_string(row.call.attempt + 1) + " was the last (max_retries)";
  // Signals of faulty code: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
  const bool is_fault =
      cause.signal >= 4 && cause.signal <= 11 && cause.signal != 9 && cause.signal != 10;
  if (is_fault && cause.last_lines.find("mobula: native stack of thread") == std::string::npos) {
    error.text +=
        "; MOBULA_STACK_TRACES=1 in the env of the job or of the call adds a native stack";
  }
  error.pid = cause.pid;
  error.signal = cause.signal;
  error.exit_code = cause.exit_code;
  error.last_lines = cause.last_lines;
  finish_with_error(task, std::move(error));
}

// A preempted task precedes the tasks of its class that have not run.
void Tasks::run_again_uncharged(TaskId task) {
  mark_preempted.hit();
  TaskRow& row = rows_.at(task);
  row.executor = {};
  ++row.preemptions;
  ++row.call.attempt;
  row.since_now(step_.now());
  if (!waits_again(task)) requeue(task);
}

void Tasks::resubmit(TaskId task) {
  TaskRow& row = rows_.at(task);
  row.executor = {};
  row.state = TaskState::waiting;
  row.since_now(step_.now());
  MOBULA_CHECK(
      row.call.form->kind != CallKind::task || dispatcher_.find(row.demand_class) != nullptr,
      "a resubmitted task has lost its class");
  if (!waits_again(task)) task_ready(task);
}

bool Tasks::can_run_again(const TaskRow& finished) const {
  if (finished.state != TaskState::finished || finished.retries_left == 0) return false;
  if (finished.call.form->kind != CallKind::actor_call) return true;
  const auto* actor = actors_.find(finished.call.form->actor);
  return actor != nullptr && actor->state != ActorState::dead;
}

// Recomputes from lineage. An actor task becomes a call of its actor again, ahead of later
// submissions.
void Tasks::run_again(TaskId task) {
  TaskRow& row = rows_.at(task);
  ends_.begin(row);
  if (row.retries_left > 0) --row.retries_left;
  ++row.call.attempt;
  lineage_.remove(task);
  const ActorId id = row.call.form->actor;
  if (row.call.form->kind != CallKind::actor_call) return resubmit(task);
  actors_.count_call(id);
  ++objects_.at(handle_id(id)).pins;
  requeue(task);
  actors_.advance(id);
}

// The backoff limits repeated out-of-memory terminations, which would also hit other tasks.
void Tasks::resubmit_later(TaskId task) {
  mark_memory.hit();
  TaskRow& row = rows_.at(task);
  const Duration pause = std::min(step_.options().memory_retry_backoff_initial *
                                      (1 << std::min<std::uint32_t>(row.memory_deaths++, 16)),
                                  step_.options().memory_retry_backoff_max);
  row.awaits_owner = false;
  pause_task(task, pause);
}

void Tasks::pause_task(TaskId task, Duration pause) {
  TaskRow& row = rows_.at(task);
  row.executor = {};
  row.state = TaskState::waiting;
  row.missing = 0;
  row.since_now(step_.now());
  row.retry_at = waits_.pause(task, pause);
}

void Tasks::tick() {
  while (const auto due = waits_.take_due()) {
    TaskRow* row = rows_.find(due->second);
    if (row == nullptr || row->retry_at != due->first) continue;  // it was cancelled
    row->retry_at.reset();
    resubmit(due->second);
  }
}

bool Tasks::waits_again(TaskId task) {
  TaskRow& row = rows_.at(task);
  row.missing = arguments_.count_missing(*row.call.arguments);
  if (row.missing == 0) return false;
  row.state = TaskState::waiting;
  waits_.await(task, *row.call.arguments);
  return true;
}

// Returns the task to the queue. It did not run, so no retry is charged.
void Tasks::requeue(TaskId task) {
  TaskRow& row = rows_.at(task);
  row.executor = {};
  if (row.cancelled) return finish_cancelled(task);
  row.state = TaskState::queued;
  row.since_now(step_.now());
  if (row.call.form->kind == CallKind::actor_call) {
    return actors_.requeue(row.call.form->actor, task);
  }
  dispatcher_.requeue(task, row.demand_class);
}

// ---- cancelling --------------------------------------------------------------------------------

void Tasks::on(const CancelObject& event) {
  const auto* row = objects_.find_expanded(event.object);
  if (row == nullptr) return;
  // A consumer may be behind the call.
  const auto* task = row->ready ? rows_.find(row->creator) : nullptr;
  if (row->ready && (task == nullptr || task->call.form->stream.window == 0)) return;
  cancel_task(row->creator, event.force, event.recursive);
}

void Tasks::on(const CancelChildren& event) {
  std::vector<TaskId> children;
  dispatcher_.expand_children(event.parent);
  for (const auto& [id, row] : rows_) {
    if (row.parent == event.parent && row.state != TaskState::finished) children.push_back(id);
  }
  std::ranges::sort(children);  // independent of which of them had rows
  for (const TaskId child : children) cancel_task(child, false, true);
}

void Tasks::cancel_task(TaskId task, bool force, bool recursive) {
  auto* row = rows_.find(task);
  if (row == nullptr || row->state == TaskState::finished) return;
  row->cancelled = true;
  if (row->state == TaskState::sent) {
    if (auto* stream = streams_.find(row->executor)) {
      streams_.say(*stream, CancelCall{row->number, recursive, force});
    }
    return;
  }
  mark_cancelled_unsent.hit();
  if (row->call.form->kind == CallKind::actor_call) {
    actors_.remove_call(row->call.form->actor, task);
  } else if (row->state == TaskState::queued) {
    dispatcher_.leave(task, row->demand_class);
  }
  const ActorId actor = row->call.form->actor;
  finish_cancelled(task);
  if (!actor.empty()) actors_.advance(actor);
}

// ---- replies -----------------------------------------------------------------------------------

void Tasks::on(ProcessId executor, CallReply&& message) {
  auto& stream = streams_.at(executor);
  const TaskId* found = stream.in_flight.find(message.number);
  if (found == nullptr || *found != message.task) return;
  const TaskId task = *found;
  ends_.replied({executor, stream.endpoint.node, message.run_time, message.pid});
  streams_.remove_call(stream, message.number);
  stream.one_at_a_time = false;
  if (stream.capacity != StreamRow::unlimited) ++stream.capacity;
  if (!stream.actor.empty() && !message.lost.empty()) {
    const CallForm& form = *rows_.at(task).call.form;
    const auto* actor = actors_.find(stream.actor);
    const bool in_order = !form.beside && !(actor != nullptr && actor->out_of_order);
    if (in_order) stream.begin_round(message.number, form.group);
  }
  const bool is_actor_call = !stream.actor.empty();
  if (message.outcome != CallOutcome::cancelled && !is_actor_call)
    dispatcher_.measure(rows_.at(task).demand_class, message.run_time);

  for (const ObjectId kept : message.kept) objects_.hold_now(kept);
  if (is_actor_call) objects_.begin_reply(executor);
  RefRecords contents;
  for (const auto& result : message.results) add_contents(contents, result);
  for (const auto& handover : message.handovers) {
    take_over(handover);
    add_contents(contents, handover);
  }

  TaskRow& row = rows_.at(task);
  row.executor = {};
  const bool retry = message.outcome == CallOutcome::exception && row.call.form->retry_exceptions &&
                     !message.no_retry && row.retries_left != 0 && !row.cancelled;
  if (message.outcome == CallOutcome::cancelled && row.preempted && !row.cancelled) {
    run_again_uncharged(task);
  } else if (message.outcome == CallOutcome::cancelled) {
    finish_cancelled(task);
  } else if (retry) {
    mark_exception_retry.hit();
    if (row.retries_left > 0) --row.retries_left;
    ++row.call.attempt;
    for (std::uint32_t i = 0; i < message.results.size(); ++i) {
      if (message.results[i].in_store) step_.send_to_agent(ReleaseObject{result_id(task, i)});
    }
    if (row.call.form->kind == CallKind::actor_call) {
      requeue(task);
      actors_.advance(rows_.at(task).call.form->actor);
    } else {
      resubmit(task);
    }
  } else if (message.outcome == CallOutcome::failed) {
    call_did_not_run(task, message);
  } else {
    finish(task, std::move(message.results));
  }
  objects_.end_reply();
  objects_.hold_contents({executor, message.number}, contents);
  actors_.end_wait_for_returns(executor);
  const auto* now = streams_.find(executor);
  if (now != nullptr && now->capacity != StreamRow::unlimited) actors_.advance(now->actor);
}

// The executor returned the call because arguments could not be read there. If the bytes are lost,
// their owner runs their task again. The call waits for it, and is not charged.
void Tasks::call_did_not_run(TaskId task, CallReply& message) {
  TaskRow& row = rows_.at(task);
  if (row.cancelled && !(message.lost.empty() && message.unread.empty()))
    return finish_cancelled(task);
  std::vector<ObjectId> elements = std::move(message.lost);
  std::erase_if(elements, [&](ObjectId each) {
    return std::ranges::find(message.unread, each) != message.unread.end();
  });
  for (const ObjectId each : elements) remake_elements(each);
  if (!elements.empty()) {
    // Elements that cannot be recomputed would be lost each time.
    if (unread_.refer_to_any(row.call, elements)) return finish(task, std::move(message.results));
    return return_to_waiting(task);
  }
  if (unread_.verify(row, message.unread)) return return_to_waiting(task);
  if (row.retries_left == 0 || row.cancelled || row.call.form->kind != CallKind::task) {
    return finish(task, std::move(message.results));
  }
  mark_charged.hit();
  if (row.retries_left > 0) --row.retries_left;
  ++row.call.attempt;
  resubmit(task);
}

void Tasks::return_to_waiting(TaskId task) {
  TaskRow& row = rows_.at(task);
  if (row.call.form->kind != CallKind::actor_call) return resubmit(task);
  const ActorId actor = row.call.form->actor;
  requeue(task);
  actors_.advance(actor);
}

void Tasks::on(ProcessId executor, CallReturned message) {
  auto& stream = streams_.at(executor);
  const TaskId* found = stream.in_flight.find(message.number);
  if (found == nullptr) return;
  const TaskId task = *found;
  streams_.remove_call(stream, message.number);
  stream.one_at_a_time = true;
  if (message.queue_full && !stream.actor.empty()) {
    mark_queue_full.hit();
    stream.measure_capacity = true;
    stream.begin_round(message.number, std::nullopt);
  }
  requeue(task);
  actors_.end_wait_for_returns(executor);
}

// A call that ended in between needs no report.
void Tasks::on(ProcessId executor, CallStarted message) {
  const auto& stream = streams_.at(executor);
  const TaskId* task = stream.in_flight.find(message.number);
  if (task != nullptr) rows_.at(*task).started = step_.now() - message.run_time;
}

}  // namespace mobula::internal::client
