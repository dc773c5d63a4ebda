// Finds the log lines of one task among those of its process: the lines that the agent read from
// its begin until another call's lines may follow.
// Thread: any; pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/id.h"
#include "cli/output/log_stream.h"
#include "protocol/messages/facts/span_facts.h"

namespace mobula::internal::cli {

// Usual delay between print and read of a line. A busy machine may take longer, which is harmless
// while no other call of the process has begun.
inline constexpr Duration read_soon = 20ms;
inline constexpr Duration read_at_last = 1s;

struct TaskLogWindow {
  ProcessId process;
  LinesWanted lines;       // by the clock of its node; `pid` is not known here
  std::size_t beside = 0;  // other calls of the process whose lines may be included
};

// Returns nothing if none of the processes ran the task.
std::optional<TaskLogWindow> run_of(std::span<const ProcessSpans> processes, TaskId task);

}  // namespace mobula::internal::cli
