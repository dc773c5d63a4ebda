// Call streams: how calls leave for executors, and the consequences of an executor's end.
#include <algorithm>

#include "base/coverage_mark.h"
#include "client/core/client_core.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_drained_late("client.stream_believed_empty_at_the_bound");
const CoverageMark mark_death_before_data("client.death_notice_before_the_last_data");
const CoverageMark mark_reopened("client.stream_to_an_actor_reopened");
const CoverageMark mark_reconnected("client.stream_reconnected_for_answers");
const CoverageMark mark_actor_unreachable("client.unreachable_executor_of_an_actor_reported");
const CoverageMark mark_rejected("client.calls_of_an_actor_that_rejects_failed");
const CoverageMark mark_unreachable("client.slot_of_an_unreachable_executor_given_up");

}  // namespace

StreamRow& ClientCore::open_stream(const Endpoint& endpoint) {
  auto [stream, fresh] = streams_.ensure(endpoint.process);
  if (auto* before = fresh ? closed_.find(endpoint.process) : nullptr) {
    mark_reopened.hit();
    stream->session = std::move(before->session);
    stream->next_number = before->next_number;
    stream->round = before->round;
    closed_.forget(endpoint.process);
  }
  if (fresh) {
    stream->endpoint = endpoint;
    stream->last_reply = step_.now();
    stream->armed.reset();
    watch(*stream);
    step_.emit(OpenStream{endpoint});
  }
  return *stream;
}

bool ClientCore::is_quiet(ProcessId executor) const {
  const auto* stream = streams_.find(executor);
  return stream == nullptr ||
         (stream->in_flight.empty() && stream->session.drained() &&
          !stream->session.next_deadline() && !stream->ending && !unheld_.any_of(executor));
}

// Nothing is pending on the stream. Its numbers stay, because the executor keeps them too.
void ClientCore::close_stream(ProcessId executor) {
  auto* stream = streams_.find(executor);
  if (stream == nullptr) return;
  if (stream->next_number > 1 && !stream->ending) {
    say(*stream, ReplyClaimed{0, false, true});  // acknowledges as well
  } else {
    send_acknowledgement(*stream);
  }
  unheld_.forget(executor);
  closed_.remember(executor, std::move(*stream));
  streams_.erase(executor);
  step_.emit(CloseStream{executor});
}

void ClientCore::say(StreamRow& stream, CallerMessage message) {
  frames_.clear();
  stream.session.send(step_.now(), std::move(message), frames_);
  send_frames(stream, frames_);
  watch(stream);
}

void ClientCore::send_frames(StreamRow& stream, std::span<CallerFrame> frames) {
  for (auto& frame : frames) step_.emit(SendToExecutor{stream.endpoint.process, std::move(frame)});
}

void ClientCore::send_acknowledgement(StreamRow& stream) {
  step_.emit(SendToExecutor{stream.endpoint.process, stream.session.acknowledgement()});
}

void ClientCore::on(ReceivedFromExecutor& event) {
  auto* stream = streams_.find(event.executor);
  if (stream == nullptr) return;
  stream->ended = false;
  stream->reconnect_at.reset();
  stream->give_up_at.reset();
  stream->rejection.clear();
  stream->reconnect_wait = StreamRow{}.reconnect_wait;
  frames_.clear();
  auto message = stream->session.receive(step_.now(), std::move(event.frame), frames_);
  send_frames(*stream, frames_);
  watch(*stream);
  if (!message) return;
  std::visit([&](auto& each) { executor_says(event.executor, std::move(each)); }, *message);
  stream = streams_.find(event.executor);
  if (stream && stream->retires) {
    // The executor exits as planned. An immediate acknowledgement lets it exit sooner.
    send_acknowledgement(*stream);
  }
  // The stream of a dead executor is concluded with its last call.
  if (stream && stream->ending) {
    mark_death_before_data.hit();
    if (stream->in_flight.empty()) conclude_stream(event.executor);
  }
}

void ClientCore::call_left_stream(StreamRow& stream, std::uint64_t number) {
  const TaskId task = stream.in_flight.at(number);
  stream.in_flight.erase(number);
  stream.last_reply = step_.now();
  if (stream.in_flight.size() < 2) stream.taking_back = false;
  if (stream.slot.empty()) return;
  if (auto* slot = slots_.find(stream.slot)) slot->idle_since = step_.now();
  stale_.push_back(tasks_.at(task).demand_class);
}

void ClientCore::executor_says(ProcessId executor, StreamClosing) {
  streams_.at(executor).retires = true;
}

void ClientCore::executor_says(ProcessId executor, ResidentStateChanged message) {
  auto* slot = slots_.find(streams_.at(executor).slot);
  if (slot == nullptr || slot->executor != executor) return;
  slot->holds_results = message.on;
  slot->idle_since = step_.now();
  stale_.push_back(slot->demand_class);
}

void ClientCore::on(const StreamEnded& event) {
  auto* stream = streams_.find(event.executor);
  if (stream == nullptr) return;
  stream->ended = true;
  if (!event.rejection.empty()) stream->rejection = event.rejection;
  if (stream->ending) return conclude_stream(event.executor);
  // Replies arrive only on a connection that this process opens, and it may have nothing left to
  // send. It also awaits the report that an executor no longer holds results.
  const auto* slot = slots_.find(stream->slot);
  const bool resides = slot != nullptr && slot->executor == event.executor && slot->holds_results;
  if (stream->in_flight.empty() && !resides) return;
  stream->reconnect_at = step_.now() + stream->reconnect_wait;
  stream->reconnect_wait = std::min<Duration>(stream->reconnect_wait * 2, 2s);
  if (!stream->give_up_at && !stream->in_flight.empty())
    stream->give_up_at = step_.now() + step_.options().unreachable_after;
  watch(*stream);
}

// The executor is dead. Its last data may still be on the way: results precede deaths.
void ClientCore::end_stream(ProcessId executor, EndCause cause) {
  auto* stream = streams_.find(executor);
  if (stream == nullptr || stream->ending) return;
  stream->ending = std::move(cause);
  stream->drain_until = step_.now() + step_.options().drain_bound;
  watch(*stream);
  if (stream->ended || stream->in_flight.empty()) conclude_stream(executor);
}

// The head may still reach the executor's node and never report an end. A task slot is returned,
// and its executor is terminated before the slot serves again. For an actor the head decides: it
// ends this incarnation, or this handle. If the executor rejects this process, its calls fail.
void ClientCore::give_up_executor(ProcessId executor) {
  auto* stream = streams_.find(executor);
  if (stream == nullptr || stream->ending || stream->in_flight.empty()) return;
  const auto waited =
      std::chrono::duration_cast<std::chrono::seconds>(step_.options().unreachable_after).count();
  const NodeId node = stream->endpoint.node;
  EndCause cause;
  // An executor that never sent a frame may not have received a call.
  cause.kind = stream->session.received() > 0 ? EndKind::killed : EndKind::retired;
  const bool rejects = !stream->rejection.empty();
  cause.text = (rejects ? "rejected connections from node " : "could not be reached from node ") +
               step_.node().brief() + " for " + std::to_string(waited) + " s" +
               (rejects ? ": " + stream->rejection : "");
  const std::string reason =
      "executor " + executor.brief() + " on node " + node.brief() + " " + cause.text;
  const char* const calls =
      rejects ? ": calls of its actor fail" : ": its actor is reported to the head";
  step_.emit(Warn{reason + (stream->slot.empty() ? calls : ": its tasks run elsewhere")});
  if (stream->slot.empty()) {
    if (rejects) return fail_rejected_calls(executor, cause.text);
    mark_actor_unreachable.hit();
    step_.send_to_head(WatchActor{stream->actor, true, reason, executor, node});
    return;
  }
  mark_unreachable.hit();
  const SlotId slot = stream->slot;
  const auto* row = slots_.find(slot);
  if (row == nullptr || row->executor != executor) return end_stream(executor, cause);
  stale_.push_back(row->demand_class);
  step_.send_to_head(ReturnSlot{slot, reason, node});
  returned_.remember(slot, true);
  forget_slot(slot);
  stream->ended = true;
  end_stream(executor, std::move(cause));
}

// The numbers of the stream stay: the executor may admit this process later. Replies to failed calls are dropped.
void ClientCore::fail_rejected_calls(ProcessId executor, const std::string& why) {
  mark_rejected.hit();
  StreamRow& stream = streams_.at(executor);
  const ActorId actor = stream.actor;
  std::vector<TaskId> calls;
  for (const auto& [number, task] : stream.in_flight) calls.push_back(task);
  stream.in_flight.clear();
  if (auto* row = actors_.find(actor)) {
    for (const TaskId task : std::exchange(row->queue, {})) calls.push_back(task);
  }
  ErrorRecord error;
  error.kind = ErrorKind::actor_unavailable;
  error.text = "actor " + actor.brief() + ": its executor " + why +
               "; compare the clocks with 'mobula doctor'";
  for (const TaskId task : calls) finish_with_error(task, error);
  end_wait_for_returns(executor);
}

void ClientCore::conclude_stream(ProcessId executor) {
  StreamRow stream = std::move(streams_.at(executor));
  streams_.erase(executor);
  step_.emit(CloseStream{executor});
  unheld_.forget(executor);
  keep_lent(stream);
  if (stream.slot.empty()) {
    conclude_actor_stream(stream, *stream.ending);
  } else {
    conclude_task_stream(stream, *stream.ending);
  }
}

// The oldest call without a reply was running, because calls run in order. The others never
// started.
void ClientCore::conclude_task_stream(StreamRow& stream, const EndCause& cause) {
  std::vector<TaskId> calls;
  for (const auto& [number, task] : stream.in_flight) calls.push_back(task);
  for (auto task = calls.rbegin(); task != calls.rend(); ++task) {
    const bool ran = *task == calls.front() && cause.kind != EndKind::retired;
    if (ran) {
      attempt_failed(*task, cause);
    } else {
      requeue(*task);
    }
  }
  if (const auto* slot = slots_.find(stream.slot)) stale_.push_back(slot->demand_class);
}

void ClientCore::tick_streams() {
  std::vector<ProcessId> over;
  std::vector<ActorId> tried;
  std::vector<ProcessId> due, unreachable;
  const auto find = [this](ProcessId id) { return streams_.find(id); };
  stream_deadlines_.take_due(step_.now(), find, due);
  for (const ProcessId executor : due) {
    StreamRow& stream = streams_.at(executor);
    if (stream.try_at && *stream.try_at <= step_.now()) {
      stream.try_at.reset();
      tried.push_back(stream.actor);
    }
    if (stream.ending && stream.drain_until <= step_.now()) {
      mark_drained_late.hit();
      over.push_back(executor);
      continue;
    }
    if (stream.give_up_at && *stream.give_up_at <= step_.now()) {
      stream.give_up_at.reset();
      unreachable.push_back(executor);
    }
    frames_.clear();
    if (stream.reconnect_at && *stream.reconnect_at <= step_.now()) {
      mark_reconnected.hit();
      stream.reconnect_at.reset();
      stream.session.reconnected(step_.now(), frames_);
    }
    stream.session.tick(step_.now(), frames_);
    send_frames(stream, frames_);
    watch(stream);
  }
  for (const ProcessId executor : over) conclude_stream(executor);
  for (const ProcessId executor : unreachable) give_up_executor(executor);
  for (const ActorId actor : tried) advance_actor(actor);
}

}  // namespace mobula::internal::client
