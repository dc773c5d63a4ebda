// Calls of an executor that ended or that this process cannot reach, and reports of executors.
#include <utility>

#include "base/coverage_mark.h"
#include "client/core/calls/tasks.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_actor_unreachable("client.unreachable_executor_of_an_actor_reported");
const CoverageMark mark_rejected("client.calls_of_an_actor_that_rejects_failed");
const CoverageMark mark_unreachable("client.slot_of_an_unreachable_executor_given_up");

}  // namespace

void Tasks::received(ProcessId executor, ExecutorMessage&& message) {
  std::visit([&](auto& each) { on(executor, std::move(each)); }, message);
}

void Tasks::call_left(const StreamRow& stream, TaskId task) {
  if (stream.slot.empty()) return;
  dispatcher_.call_left(stream, rows_.at(task).demand_class);
}

void Tasks::concluded(StreamRow& stream) {
  for (const auto& [number, task] : stream.in_flight)
    objects_.keep_lent(*rows_.at(task).call.arguments);
  if (stream.slot.empty()) {
    actors_.conclude(stream, *stream.ending);
  } else {
    conclude_task_stream(stream, *stream.ending);
  }
}

// The head may still reach the executor's node and never report an end. A task slot is returned,
// and its executor is terminated before the slot serves again. For an actor the head decides: it
// ends this incarnation, or this handle. If the executor rejects this process, its calls fail.
void Tasks::unreachable(ProcessId executor) {
  auto* stream = streams_.find(executor);
  if (stream == nullptr || stream->ending || stream->in_flight.empty()) return;
  const auto waited =
      std::chrono::duration_cast<std::chrono::seconds>(step_.options().unreachable_timeout).count();
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
  if (!dispatcher_.give_up(*stream, reason)) return streams_.executor_ended(executor, cause);
  stream->ended = true;
  streams_.executor_ended(executor, std::move(cause));
}

// The numbers of the stream stay: the executor may admit this process later. Replies to failed
// calls are dropped.
void Tasks::fail_rejected_calls(ProcessId executor, const std::string& why) {
  mark_rejected.hit();
  StreamRow& stream = streams_.at(executor);
  const ActorId actor = stream.actor;
  std::vector<TaskId> calls;
  for (const auto& [number, task] : stream.in_flight) calls.push_back(task);
  stream.in_flight.clear();
  for (const TaskId task : actors_.take_calls(actor)) calls.push_back(task);
  ErrorRecord error;
  error.kind = ErrorKind::actor_unavailable;
  error.text = "actor " + actor.brief() + ": its executor " + why +
               "; compare the clocks with 'mobula doctor'";
  for (const TaskId task : calls) finish_with_error(task, error);
  actors_.end_wait_for_returns(executor);
}

// The oldest call without a reply was running, because calls run in order. The others never
// started.
void Tasks::conclude_task_stream(StreamRow& stream, const EndCause& cause) {
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
  dispatcher_.slot_changed(stream.slot);
}

void Tasks::on(ProcessId executor, StreamClosing) { streams_.at(executor).retires = true; }

void Tasks::on(ProcessId executor, ResidentStateChanged message) {
  dispatcher_.set_holds_results(streams_.at(executor), message.on);
}

}  // namespace mobula::internal::client
