// Commands of the executor core to its shell. Every struct has a field list, so that a replay can
// compare them.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/model/resident_results.h"
#include "base/model/task.h"
#include "base/time.h"
#include "protocol/messages/call_stream.h"
#include "protocol/messages/local_control.h"

namespace mobula::internal::executor {

struct SendToCaller {
  ProcessId caller;
  ExecutorFrame frame;
  MOBULA_FIELDS(caller, frame);
  friend bool operator==(const SendToCaller&, const SendToCaller&) = default;
};
struct SendToAgent {
  ProcessToAgent message;
  MOBULA_FIELDS(message);
  friend bool operator==(const SendToAgent&, const SendToAgent&) = default;
};
struct FetchArguments {
  std::uint64_t token = 0;
  std::vector<Argument> refs;  // arguments with is_ref
  RefRecords tensors;          // separately stored elements of tensors in the other arguments
  ProcessId caller;
  MOBULA_FIELDS(token, refs, tensors, caller);
  friend bool operator==(const FetchArguments&, const FetchArguments&) = default;
};
// Results that other processes refer to must leave this process before it exits. Evacuated is the
// reply.
struct Evacuate {
  MOBULA_FIELDS();
  friend bool operator==(const Evacuate&, const Evacuate&) = default;
};
struct RunCall {
  std::uint64_t token = 0;
  ProcessId caller;
  CallRecord call;
  std::uint32_t group = 0;  // index of the concurrency group, 0 for none
  MOBULA_FIELDS(token, caller, call, group);
  friend bool operator==(const RunCall&, const RunCall&) = default;
};
// The call never runs here, so its fetched arguments can be dropped.
struct DropCall {
  std::uint64_t token = 0;
  MOBULA_FIELDS(token);
  friend bool operator==(const DropCall&, const DropCall&) = default;
};
// current().cancelled() becomes true; with `recursive`, its children are cancelled.
struct CancelRunning {
  std::uint64_t token = 0;
  bool recursive = true;
  MOBULA_FIELDS(token, recursive);
  friend bool operator==(const CancelRunning&, const CancelRunning&) = default;
};
struct ReleasePins {
  RefRecords refs;
  bool unheld = false;  // no process has held them, or will
  MOBULA_FIELDS(refs, unheld);
  friend bool operator==(const ReleasePins&, const ReleasePins&) = default;
};
// The process exits as planned. SubmittedDone follows when all calls that it submitted are
// finished, and SubmittedPending at once if some are not.
struct AwaitSubmitted {
  MOBULA_FIELDS();
  friend bool operator==(const AwaitSubmitted&, const AwaitSubmitted&) = default;
};
// The actor exits: the head must take its name from it. NameReleased is the reply.
struct ReleaseName {
  MOBULA_FIELDS();
  friend bool operator==(const ReleaseName&, const ReleaseName&) = default;
};
// No call runs any more: a thread that runs calls destroys the actor.
struct DestroyActor {
  MOBULA_FIELDS();
  friend bool operator==(const DestroyActor&, const DestroyActor&) = default;
};
// All replies are sent, and the process exits now.
struct Leave {
  EndKind kind = EndKind::retired;
  bool exit_handlers = false;       // exit handlers run first
  bool destructor_overdue = false;  // the destructor of the actor did not return in time
  std::uint64_t cut_calls = 0;      // calls that did not end after exit_actor; no destructor runs
  MOBULA_FIELDS(kind, exit_handlers, destructor_overdue, cut_calls);
  friend bool operator==(const Leave&, const Leave&) = default;
};
// The window of a streaming call moved: a thread that waits to give an item checks it again.
struct WindowMoved {
  std::uint64_t token = 0;
  MOBULA_FIELDS(token);
  friend bool operator==(const WindowMoved&, const WindowMoved&) = default;
};
using Command = std::variant<SendToCaller, SendToAgent, FetchArguments, RunCall, DropCall,
                             CancelRunning, ReleasePins, Leave, Evacuate, AwaitSubmitted,
                             DestroyActor, ReleaseName, WindowMoved>;

}  // namespace mobula::internal::executor
