// Main function of an executor process: receives the assignment from the agent, serves callers,
// runs user code, and exits. Calls run on the main thread. An actor with max_concurrency > 1 has
// further threads.
// Thread: main thread.
#pragma once

#include "base/result.h"
#include "client/executor/fork_server.h"

namespace mobula::internal::executor {

// Called from init. Runs until the agent or the assignment ends it, then exits the process.
[[noreturn]] void run_executor(ForkedExecutor start);

}  // namespace mobula::internal::executor
