// Reads the head's list of the holders of tensors, and names them for users.
// Thread: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"

namespace mobula::internal::client {

struct TensorHolder {
  ProcessId process;  // empty: a process of `text` that its node did not list
  std::string text;   // "driver (pid 12 on node 3f2a91bc)"
};

// Processes other than `own` that hold an object of the list, each once, in the order of the list.
// A node that holds an object and lists no process is a holder. Empty if the document cannot be
// read.
std::vector<TensorHolder> tensor_holders(std::string_view document, ProcessId own);

// The only holder, if there is exactly one and it is a known process.
ProcessId sole_holder(const std::vector<TensorHolder>& holders);

// Statements of a task's owner about it that tell whether a wait inside the task can end.
struct CallerState {
  ProcessId caller;
  bool awaits = false;              // its only thread is blocked in a get that needs the task
  std::vector<ObjectId> tensors{};  // that the task's arguments refer to
};
// Reads the head's document of one task; nothing of another task, or if it cannot be read.
CallerState caller_state(std::string_view document, TaskId task);

// The call that runs in `executor` by the head's list of tasks; empty if it runs none or several.
TaskId only_call_of(std::string_view document, ProcessId executor);

}  // namespace mobula::internal::client
