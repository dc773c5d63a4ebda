#include "client/core/calls/streams/call_streams.h"

#include <algorithm>
#include <utility>

#include "base/coverage_mark.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_waits_there("client.call_waits_at_an_executor");
const CoverageMark mark_drained_late("client.stream_assumed_empty_at_the_timeout");
const CoverageMark mark_death_before_data("client.death_notice_before_the_last_data");
const CoverageMark mark_reopened("client.stream_to_an_actor_reopened");
const CoverageMark mark_reconnected("client.stream_reconnected_for_answers");

}  // namespace

StreamRow& CallStreams::open(const Endpoint& endpoint) {
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

bool CallStreams::is_quiet(ProcessId executor) const {
  const auto* stream = streams_.find(executor);
  return stream == nullptr ||
         (stream->in_flight.empty() && stream->session.drained() &&
          !stream->session.next_deadline() && !stream->ending && !unclaimed_.any_of(executor));
}

// Nothing is pending on the stream. Its numbers stay, because the executor keeps them too.
void CallStreams::close(ProcessId executor) {
  auto* stream = streams_.find(executor);
  if (stream == nullptr) return;
  if (stream->next_number > 1 && !stream->ending) {
    say(*stream, ReplyClaimed{0, false, true, 0});  // acknowledges as well
  } else {
    acknowledge(*stream);
  }
  unclaimed_.forget(executor);
  closed_.remember(executor, std::move(*stream));
  streams_.erase(executor);
  step_.emit(CloseStream{executor});
}

void CallStreams::drop(ProcessId executor) {
  if (streams_.erase(executor)) step_.emit(CloseStream{executor});
}

void CallStreams::say(StreamRow& stream, CallerMessage message) {
  frames_.clear();
  stream.session.send(step_.now(), std::move(message), frames_);
  send_frames(stream, frames_);
  watch(stream);
}

void CallStreams::send_frames(StreamRow& stream, std::span<CallerFrame> frames) {
  for (auto& frame : frames) step_.emit(SendToExecutor{stream.endpoint.process, std::move(frame)});
}

void CallStreams::acknowledge(StreamRow& stream) {
  step_.emit(SendToExecutor{stream.endpoint.process, stream.session.acknowledgement()});
}

void CallStreams::receive(ReceivedFromExecutor& event) {
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
  port_.received(event.executor, std::move(*message));
  stream = streams_.find(event.executor);
  if (stream && stream->retires) {
    // The executor exits as planned. An immediate acknowledgement lets it exit sooner.
    acknowledge(*stream);
  }
  // The stream of a dead executor is concluded with its last call.
  if (stream && stream->ending) {
    mark_death_before_data.hit();
    if (stream->in_flight.empty()) conclude(event.executor);
  }
}

std::uint64_t CallStreams::add_call(StreamRow& stream, TaskId task) {
  const std::uint64_t number = stream.next_number++;
  if (stream.in_flight.empty()) stream.last_reply = step_.now();
  if (!stream.in_flight.empty() && !stream.slot.empty()) mark_waits_there.hit();
  stream.in_flight.insert(number, task);
  return number;
}

void CallStreams::remove_call(StreamRow& stream, std::uint64_t number) {
  const TaskId task = stream.in_flight.at(number);
  stream.in_flight.erase(number);
  stream.last_reply = step_.now();
  if (stream.in_flight.size() < 2) stream.taking_back = false;
  port_.call_left(stream, task);
}

void CallStreams::on(const StreamEnded& event) {
  auto* stream = streams_.find(event.executor);
  if (stream == nullptr) return;
  stream->ended = true;
  if (!event.rejection.empty()) stream->rejection = event.rejection;
  if (stream->ending) return conclude(event.executor);
  // Replies arrive only on a connection that this process opens, and it may have nothing left to
  // send.
  if (stream->in_flight.empty() && !port_.awaits_report(*stream)) return;
  stream->reconnect_at = step_.now() + stream->reconnect_wait;
  stream->reconnect_wait = std::min<Duration>(stream->reconnect_wait * 2, 2s);
  if (!stream->give_up_at && !stream->in_flight.empty())
    stream->give_up_at = step_.now() + step_.options().unreachable_timeout;
  watch(*stream);
}

// The executor is dead. Its last data may still be on the way: results precede deaths.
void CallStreams::executor_ended(ProcessId executor, EndCause cause) {
  auto* stream = streams_.find(executor);
  if (stream == nullptr || stream->ending) return;
  stream->ending = std::move(cause);
  stream->drain_until = step_.now() + step_.options().stream_drain_timeout;
  watch(*stream);
  if (stream->ended || stream->in_flight.empty()) conclude(executor);
}

void CallStreams::conclude(ProcessId executor) {
  StreamRow stream = std::move(streams_.at(executor));
  streams_.erase(executor);
  step_.emit(CloseStream{executor});
  unclaimed_.forget(executor);
  port_.concluded(stream);
}

void CallStreams::tick() {
  std::vector<ProcessId> over;
  std::vector<ActorId> tried;
  std::vector<ProcessId> due, unreachable;
  const auto find = [this](ProcessId id) { return streams_.find(id); };
  deadlines_.take_due(step_.now(), find, due);
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
  for (const ProcessId executor : over) conclude(executor);
  for (const ProcessId executor : unreachable) port_.unreachable(executor);
  for (const ActorId actor : tried) port_.may_send(actor);
}

std::optional<Time> CallStreams::earliest_of_all() const {
  std::optional<Time> first;
  for (const auto& [id, stream] : streams_) {
    const auto at = stream.deadline();
    if (at && (!first || *at < *first)) first = at;
  }
  return first;
}

// ---- refs in replies ----------------------------------------------------------------------------

void CallStreams::claim(const UnclaimedReplies::Reply& reply, PooledVector<ObjectId> missing) {
  if (!missing.empty()) {
    unclaimed_.add(reply, std::move(missing));
  } else if (auto* stream = streams_.find(reply.executor)) {
    say(*stream, ReplyClaimed{reply.number, false, false, reply.item});
  }
}

void CallStreams::ref_settled(ObjectId object, bool is_held) {
  for (const auto& reply : unclaimed_.settle(object, is_held)) {
    auto* stream = streams_.find(reply.executor);
    if (stream == nullptr) continue;
    say(*stream, ReplyClaimed{reply.number, !reply.held, false, reply.item});
    port_.reply_claimed(*stream);
  }
}

}  // namespace mobula::internal::client
