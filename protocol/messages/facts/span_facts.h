// Spans of the latest calls of a process, as their executor and as their owner, for timelines. Sent
// on request, and once before a planned exit.
// Thread: owner (plain values).
// Units: durations count back from the reply.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/id.h"
#include "base/time.h"
#include "protocol/messages/facts/transfer_facts.h"

namespace mobula::internal {

// One call that ended in the reporting process.
struct RanSpan {
  TaskId task;
  std::uint32_t name = 0;  // index into SpansReply::names
  Duration began{};
  Duration ended{};
  bool failed = false;
  MOBULA_FIELDS(task, name, began, ended, failed);
  friend bool operator==(const RanSpan&, const RanSpan&) = default;
};

// One call that the reporting process submitted and whose result it has.
struct OwnedSpan {
  TaskId task;
  std::uint32_t name = 0;  // index into SpansReply::names
  Duration submitted{};
  Duration sent{};     // last send to `executor`
  Duration ended{};    // arrival of the result or of the failure
  ProcessId executor;  // empty: the call was never sent
  bool failed = false;
  Duration ran{};        // run time of the user code; 0 without a reply
  NodeId node;           // node of the executor
  std::int64_t pid = 0;  // pid of the executor
  TaskId parent{};       // task that submitted it; of a driver: the driver
  MOBULA_FIELDS(task, name, submitted, sent, ended, executor, failed, ran, node, pid, parent);
  friend bool operator==(const OwnedSpan&, const OwnedSpan&) = default;
};

// Head to processes: requests spans of the latest calls. Head to agents: requests the latest
// transfers of objects. Answered by SpansReply.
struct SpansRequest {
  std::uint64_t request = 0;
  std::uint64_t limit = 0;  // maximum number of each kind
  TaskId task;              // not empty: only this task and the calls that overlapped it
  JobId job;                // not empty, to agents: only this job
  MOBULA_FIELDS(request, limit, task, job);
  friend bool operator==(const SpansRequest&, const SpansRequest&) = default;
};

// Process or agent to head, which forwards it to the tool. `request` 0: sent without a request,
// before a planned exit.
struct SpansReply {
  std::uint64_t request = 0;
  std::int64_t wall_us = 0;  // wall clock of the sender at the reply
  std::vector<std::string> names;
  std::vector<RanSpan> ran;             // the oldest first
  std::vector<OwnedSpan> owned;         // the oldest first
  std::vector<TransferFact> transfers;  // the latest first
  std::uint64_t ran_forgotten = 0;      // forgotten spans, including those beyond the limit
  std::uint64_t owned_forgotten = 0;
  std::uint64_t transfers_forgotten = 0;
  std::string trace_parent;  // TRACEPARENT of the sender; empty: it has none
  MOBULA_FIELDS(request, wall_us, names, ran, owned, transfers, ran_forgotten, owned_forgotten,
                transfers_forgotten, trace_parent);
  friend bool operator==(const SpansReply&, const SpansReply&) = default;
};

// To the tool, together with the document that describes the processes.
struct ProcessSpans {
  ProcessId process;
  SpansReply spans;
  MOBULA_FIELDS(process, spans);
  friend bool operator==(const ProcessSpans&, const ProcessSpans&) = default;
};

}  // namespace mobula::internal
