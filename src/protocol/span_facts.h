// What a process says of when its latest calls were: as who runs them, and as who owns them. For
// timelines; asked for, or told once when it ends. Plain structs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/id.h"
#include "base/time.h"
#include "protocol/transfer_facts.h"

namespace mobula::internal {

// One call that has ended in the process that tells of it. Times count back from the answer.
struct RanSpan {
  TaskId task;
  std::uint32_t name = 0;  // in SpansTold::names
  Duration began{};
  Duration ended{};
  bool failed = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("task", &RanSpan::task), field("name", &RanSpan::name),
                 field("began", &RanSpan::began), field("ended", &RanSpan::ended),
                 field("failed", &RanSpan::failed));
  }
  friend bool operator==(const RanSpan&, const RanSpan&) = default;
};

// One call that the process has submitted and whose result it has. Times count back from the answer.
struct OwnedSpan {
  TaskId task;
  std::uint32_t name = 0;  // in SpansTold::names
  Duration submitted{};
  Duration sent{};         // to `executor`, the last time
  Duration ended{};        // its result came, or what it failed with
  ProcessId executor;      // empty: it was never sent
  bool failed = false;
  Duration ran{};          // of its user code; 0 where there was no answer
  NodeId node;             // of the executor
  std::int64_t pid = 0;    // likewise
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("task", &OwnedSpan::task), field("name", &OwnedSpan::name),
                 field("submitted", &OwnedSpan::submitted), field("sent", &OwnedSpan::sent),
                 field("ended", &OwnedSpan::ended), field("executor", &OwnedSpan::executor),
                 field("failed", &OwnedSpan::failed), field("ran", &OwnedSpan::ran),
                 field("node", &OwnedSpan::node), field("pid", &OwnedSpan::pid));
  }
  friend bool operator==(const OwnedSpan&, const OwnedSpan&) = default;
};

// Head to process: when were your latest calls? And to agents: when did objects come to you? Answered by SpansTold.
struct AskSpans {
  std::uint64_t request = 0;
  std::uint64_t limit = 0;  // of each kind
  TaskId task;              // not empty: of it, and of what ran beside it
  JobId job;                // not empty, to agents: of it alone
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &AskSpans::request), field("limit", &AskSpans::limit),
                 field("task", &AskSpans::task), field("job", &AskSpans::job));
  }
  friend bool operator==(const AskSpans&, const AskSpans&) = default;
};

// Process or agent to head, and on to the tool. `request` 0: unasked, since who says it is about to end.
struct SpansTold {
  std::uint64_t request = 0;
  std::int64_t wall_us = 0;  // the process's clock at the answer
  std::vector<std::string> names;
  std::vector<RanSpan> ran;      // the oldest first
  std::vector<OwnedSpan> owned;  // likewise
  std::vector<TransferFact> transfers;  // the latest first
  std::uint64_t ran_forgotten = 0;      // and what was left out for the limit
  std::uint64_t owned_forgotten = 0;
  std::uint64_t transfers_forgotten = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &SpansTold::request), field("wall_us", &SpansTold::wall_us),
                 field("names", &SpansTold::names), field("ran", &SpansTold::ran),
                 field("owned", &SpansTold::owned), field("transfers", &SpansTold::transfers),
                 field("ran_forgotten", &SpansTold::ran_forgotten),
                 field("owned_forgotten", &SpansTold::owned_forgotten),
                 field("transfers_forgotten", &SpansTold::transfers_forgotten));
  }
  friend bool operator==(const SpansTold&, const SpansTold&) = default;
};

// To the tool, beside the document that says who the processes are.
struct ProcessSpans {
  ProcessId process;
  SpansTold spans;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("process", &ProcessSpans::process), field("spans", &ProcessSpans::spans));
  }
  friend bool operator==(const ProcessSpans&, const ProcessSpans&) = default;
};

}  // namespace mobula::internal
