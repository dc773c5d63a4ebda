// An error as a value. Its encoded form is the content of a ValueRecord with `is_error`; `get`
// converts it to an exception and throws that.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.h"
#include "base/id.h"
#include "base/model/jobs/principal.h"
#include "base/model/payload.h"
#include "mobula/detail/error_kind.h"

namespace mobula::internal {

using detail::ErrorKind;

// The kind as a number in messages. These numbers are older than those of ErrorKind: append only.
std::uint8_t message_number(ErrorKind kind);
// The kind of a number. A number of a later release is the kind `other`.
ErrorKind error_kind_of(std::uint8_t message_number);

// The name of the public exception class, as "TaskError"; "Error" for `other`.
const char* class_name(ErrorKind kind);

// Returns the public `reason` of ActorDiedError for the end of an actor's process.
inline const char* reason_of(EndKind end) {
  switch (end) {
    case EndKind::exited: return "exited";
    case EndKind::signalled: return "signalled";
    case EndKind::out_of_memory: return "out_of_memory";
    case EndKind::retired: return "retired";
    case EndKind::intended: return "intended";
    case EndKind::killed: return "killed";
    case EndKind::node_died: return "node_died";
    case EndKind::start_failed: return "start_failed";
    case EndKind::group_removed: return "group_removed";
  }
  return "";
}

struct ErrorRecord {
  ErrorKind kind = ErrorKind::task;
  std::string text;
  std::string remote_type;  // task: type name of the exception
  std::string task_name;
  TaskId task;
  NodeId node;
  std::int64_t pid = 0;
  std::int32_t signal = 0;
  std::int32_t exit_code = 0;
  std::string last_lines;
  Payload exception;              // the encoded exception, if its type is registered
  ActorId actor;                  // actor_died, actor_unavailable
  Payload cause;                  // encoded ErrorRecord of the cause; may be empty
  std::string resource{};         // unschedulable: the resource that no node has; may be empty
  EndKind end = EndKind::exited;  // actor_died, actor_unavailable
  MOBULA_FIELDS(kind, text, remote_type, task_name, task, node, pid, signal, exit_code, last_lines,
                exception, actor, cause, resource, end);
  friend bool operator==(const ErrorRecord&, const ErrorRecord&) = default;
};

}  // namespace mobula::internal
