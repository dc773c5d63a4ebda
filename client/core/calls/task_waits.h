// Tasks that wait before they are queued: for arguments that are not ready, or for the end of a
// pause.
// Thread: owner (one ClientCore). Not: rows of tasks, which Tasks owns and may erase during a wait.
#pragma once

#include <optional>
#include <set>
#include <utility>

#include "base/containers/block_pool.h"
#include "base/containers/table.h"
#include "client/core/refs/object_refs.h"
#include "client/core/step_context.h"

namespace mobula::internal::client {

class TaskWaits {
 public:
  TaskWaits(StepContext& step, const ObjectRefs& objects) : step_(step), objects_(objects) {}

  // Registers the task once for each missing argument.
  void await(TaskId task, const Arguments& arguments);
  bool has_waiters(ObjectId object) const { return waiting_.contains(object); }
  // The object is ready: removes and returns its waiters, once for each argument.
  PooledVector<TaskId> take_waiters(ObjectId object);

  // Returns the end of the pause.
  Time pause(TaskId task, Duration pause);
  // Removes and returns the earliest pause that is over, with its end.
  std::optional<std::pair<Time, TaskId>> take_due();
  bool any_due() const { return !pauses_.empty() && pauses_.begin()->first <= step_.now(); }
  std::optional<Time> next_deadline() const {
    return pauses_.empty() ? std::nullopt : std::optional(pauses_.begin()->first);
  }

 private:
  StepContext& step_;
  const ObjectRefs& objects_;
  Table<ObjectId, PooledVector<TaskId>> waiting_;  // object -> tasks that lack it
  std::set<std::pair<Time, TaskId>> pauses_;       // (end, task)
};

}  // namespace mobula::internal::client
