// A client core with a streaming call, its producer, and its consumer.
// Thread: owner.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/model/stream_link.h"
#include "client/core/small_client.h"

namespace mobula::internal::client {

inline constexpr std::uint64_t producer = 20;

class StreamingClient : public SmallClient {
 protected:
  TaskId stream(std::uint32_t window = 4, std::int32_t max_retries = 3) {
    SubmitTask given = task(7);
    given.call.form.edit().stream.window = window;
    given.max_retries = max_retries;
    const TaskId made = submit(given);
    slot(3, producer);
    return made;
  }
  TaskId stream_of(ActorId actor, std::int32_t max_task_retries) {
    SubmitActorCall event;
    event.call.form.edit().kind = CallKind::actor_call;
    event.call.form.edit().actor = actor;
    event.call.form.edit().stream.window = 4;
    event.call.task = TaskId::of(8);
    event.max_task_retries = max_task_retries;
    step(event);
    return event.call.task;
  }
  void yield(std::uint64_t index, ValueRecord item, std::uint64_t executor = producer) {
    const PushCall call = calls_at(executor).front();
    say(executor, ItemYielded{call.number, call.call.task, index, std::move(item), {}});
  }
  void yield(std::uint64_t index, std::uint64_t executor = producer) {
    yield(index, value("item " + std::to_string(index)), executor);
  }
  void end(std::uint64_t executor = producer) { reply(executor, CallReply{}); }
  // Moves a consumer from position `index` to the next, and drops the item.
  void take(TaskId made, std::uint64_t index) {
    step(TakeItem{position_id(made, index)});
    release(item_id(made, index));
    release(position_id(made, index));
  }
  // The refs of a position: its item and the next position.
  std::vector<ObjectId> refs(TaskId made, std::uint64_t index) const {
    std::vector<ObjectId> objects;
    const auto* row = core_.object(position_id(made, index));
    if (row == nullptr || !row->ready) return objects;
    for (const auto& each : row->value->contained) objects.push_back(each.object);
    return objects;
  }
  bool is_end(TaskId made, std::uint64_t index) const {
    const ObjectId position = position_id(made, index);
    return state(position) == "value" && refs(made, index).empty();
  }
  void crash(std::uint64_t executor = producer) {
    slot_executor_ends(3, executor, EndKind::signalled);
  }
  void new_agent() {
    StartJob job;
    job.job = JobId::of(1);
    step(Attached{node(), ProcessId::of(10), job});
  }
  // Its retry has started at another executor.
  const StreamTerms& retry_at(std::uint64_t executor) {
    slot(4, executor);
    terms_ = calls_at(executor).front().call.form->stream;
    return terms_;
  }
  StreamTerms terms_;
};

}  // namespace mobula::internal::client
