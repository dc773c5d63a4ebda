// How the user's own program becomes an executor. An agent starts it in one of two ways, told by
// the environment: as a nursery, which stays in `run_nursery` and returns from there in each forked
// executor; or directly, which then calls `adopt_executor_from_environment`. Both end in the same
// place with the same result, because both carry out the same request.
//
// Called from the main thread, as the first thing `init` does. Knows nothing of tasks. Installs no
// signal handler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"

namespace mobula::internal::executor {

enum class StartedAs { driver, nursery, executor };

// From the environment alone; may be called before `init`, and in static initialisers. In an
// executor it is true until that one has taken up its work, and `driver` in programs it starts.
StartedAs started_as();

struct NurseryLimits {
  // Forking copies the page tables of touched private memory: about 0.5 ms for 64 MiB, twice.
  std::size_t max_touched_bytes = 256u << 20;
};

// Whether this process may be forked: one thread, no CUDA library mapped, no accelerator device
// open, little memory touched. The failure's text names what stands against it and what to do.
Result<void> nursery_check(const NurseryLimits& limits = {});

// What a process must know to run as an executor. Environment, stdin (/dev/null), stdout and stderr
// (the log pipe, by lines), session and parent-death signal are in force already.
struct ForkedExecutor {
  Fd link;  // its end of the agent's socket pair
  ProcessId process;
  SlotId slot;
  std::uint64_t seed = 0;  // for the program's random generators
};

// Serves fork requests of the agent. Returns only in a forked executor. In the nursery itself it
// never returns: it ends the process (by _exit) when the agent's end closes or when
// `nursery_check` refuses, which it reports first.
ForkedExecutor run_nursery(const NurseryLimits& limits = {});

// The same for a program that was started directly. Fails where the agent's end is gone or the
// process was not started by one.
Result<ForkedExecutor> adopt_executor_from_environment();

// Ends an executor abruptly: flushes stdio and leaves by _exit, without exit handlers and static destructors. A planned
// exit calls std::exit, so each forked executor destroys its own copy of the static objects.
[[noreturn]] void leave_executor(int exit_code);

}  // namespace mobula::internal::executor
