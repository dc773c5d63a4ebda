// Turns the user's program into an executor. Depending on the environment, the agent starts it as a
// fork server, which returns from `run_fork_server` in each forked executor, or directly, which
// then calls `adopt_executor_from_environment`. Both carry out the same request and have the same
// result.
// Thread: main thread, first step of `init`.
// Not: tasks, signal handlers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"

namespace mobula::internal::executor {

enum class StartedAs { driver, fork_server, executor };

// Read from the environment alone; may be called before `init` and in static initializers. Returns
// `executor` until the executor starts its work, and `driver` in programs that an executor starts.
StartedAs started_as();

struct ForkServerLimits {
  // Forking copies the page tables of touched private memory: about 0.5 ms for 64 MiB, twice.
  std::size_t max_touched_bytes = 256u << 20;
};

// Checks whether this process may be forked: one thread, no mapped CUDA library, no open
// accelerator device, little touched memory. The error names the violated rule and the remedy.
Result<void> check_fork_server_start(const ForkServerLimits& limits = {});

// Inputs of an executor. Environment, stdin (/dev/null), stdout and stderr (the log pipe,
// line-buffered), session, and parent-death signal are set already.
struct ForkedExecutor {
  Fd link;  // end of the agent's socket pair
  ProcessId process;
  SlotId slot;
  std::uint64_t seed = 0;  // seed of the program's random generators
};

// Serves fork requests of the agent, and returns only in a forked executor. The fork server itself
// exits by _exit when the agent closes its end, or when `check_fork_server_start` rejects, which it
// reports first.
ForkedExecutor run_fork_server(const ForkServerLimits& limits = {});

// The same for a program that was started directly. Fails if no agent started the process, or if
// the agent exited.
Result<ForkedExecutor> adopt_executor_from_environment();

// Terminates an executor at once: flushes stdio and calls _exit, without exit handlers and static
// destructors. A planned exit calls std::exit instead, so that each forked executor destroys its
// copy of the static objects.
[[noreturn]] void leave_executor(int exit_code);

}  // namespace mobula::internal::executor
