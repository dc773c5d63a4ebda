#include "client/core/calls/task_waits.h"

namespace mobula::internal::client {

void TaskWaits::await(TaskId task, const Arguments& arguments) {
  for (const auto& argument : arguments) {
    const auto* object = argument.is_ref ? objects_.find(argument.ref.object) : nullptr;
    if (object && object->is_missing()) waiting_[argument.ref.object].push_back(task);
  }
}

PooledVector<TaskId> TaskWaits::take_waiters(ObjectId object) {
  auto* waiting = waiting_.find(object);
  if (waiting == nullptr) return {};
  PooledVector<TaskId> tasks = std::move(*waiting);
  waiting_.erase(object);
  return tasks;
}

Time TaskWaits::pause(TaskId task, Duration pause) {
  const Time end = step_.now() + pause;
  pauses_.insert({end, task});
  return end;
}

std::optional<std::pair<Time, TaskId>> TaskWaits::take_due() {
  if (!any_due()) return std::nullopt;
  return pauses_.extract(pauses_.begin()).value();
}

}  // namespace mobula::internal::client
