// Messages between a tool (the `mobula` program) and the head: one request, one reply.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/model/payload.h"
#include "base/result.h"
#include "base/time.h"
#include "protocol/codec/wire.h"
#include "protocol/messages/facts/task_facts.h"

namespace mobula::internal {

struct ToolRequest {
  std::uint32_t version = own_protocol.newest;
  std::uint64_t request = 0;
  // status, list, get, explain, planner_state, drain, undrain, actor_kill, stop, job_stop, submit,
  // job_log, timeline, logs, log, head_log, usage, changes, ping
  std::string verb;
  // nodes, jobs, actors, leases, executors, tasks, demands, objects, submissions; of job_log: the
  // first byte; of log and head_log: FILE:FROM; of actor_kill: empty or "restart"
  std::string kind;
  std::string argument;  // id, JSON request, filters of `list tasks` as a JSON object
  std::uint32_t oldest = own_protocol.oldest;
  MOBULA_FIELDS(version, request, verb, kind, argument, oldest);
  friend bool operator==(const ToolRequest&, const ToolRequest&) = default;
};

struct ToolReply {
  std::uint64_t request = 0;
  bool ok = true;
  std::string json;                              // one JSON document
  ErrorCode code = ErrorCode::invalid_argument;  // if not ok
  std::string text;
  std::vector<TaskError> errors;  // errors of tasks that the document names
  Payload bytes;  // job_log, log, head_log: bytes of the log; timeline: a list of ProcessSpans
  Duration retry_after{};  // delay before a retry of a rejected request; 0: unknown
  MOBULA_FIELDS(request, ok, json, code, text, errors, bytes, retry_after);
  friend bool operator==(const ToolReply&, const ToolReply&) = default;
};

}  // namespace mobula::internal
