// Which of its process's lines are one task's: what the agent read there from its begin on, until another call's lines
// may come. A value function, without files or processes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/id.h"
#include "cli/log_stream.h"
#include "protocol/span_facts.h"

namespace mobula::internal::cli {

// An agent reads a line soon after it was printed. On a busy machine it may be later: nobody else's while no other call
// of the process has begun.
inline constexpr Duration read_soon = 20ms;
inline constexpr Duration read_at_last = 1s;

struct TaskRun {
  ProcessId process;
  LinesWanted lines;       // by the clock of its node; `pid` is not known here
  std::size_t beside = 0;  // other calls of the process whose lines may be among them
};

// Nothing where none of the processes has run it.
std::optional<TaskRun> run_of(std::span<const ProcessSpans> processes, TaskId task);

}  // namespace mobula::internal::cli
