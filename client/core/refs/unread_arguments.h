// Arguments that an executor could not read. This process reads them itself, through the home of
// the object, which alone decides about a loss. If the home of an argument that another process
// owns cannot be reached, the call pauses, because the owner of an object outlives the agent of its
// node.
// Thread: owner (one ClientCore). Not: rows and states of tasks.
#pragma once

#include <optional>
#include <vector>

#include "client/core/calls/fifo_cache.h"
#include "client/core/calls/task_row.h"
#include "client/core/refs/object_refs.h"

namespace mobula::internal::client {

class UnreadArguments {
 public:
  explicit UnreadArguments(ObjectRefs& objects) : objects_(objects) {}

  // The head published the death of the process.
  void remember_death(ProcessId process) { dead_.remember(process, true); }
  // Starts to read the stored ones of `unread` here, and counts the return of the call in `row`.
  // False if the owner of one of them is dead, or if executors repeatedly fail to read arguments
  // that are readable here.
  bool verify(TaskRow& row, const std::vector<ObjectId>& unread);
  // The pause before the task reads the lost argument again. Empty if the loss is final.
  std::optional<Duration> await_owner(TaskRow& row, ObjectId object);
  // True if the arguments, by value or by ref, now refer to one of the elements.
  bool refer_to_any(const CallRecord& call, const std::vector<ObjectId>& elements) const;

 private:
  ObjectRefs& objects_;
  FifoCache<ProcessId, bool> dead_;  // processes whose death the head published
};

}  // namespace mobula::internal::client
