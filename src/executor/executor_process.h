// The life of an executor process: takes its assignment from the agent, answers callers, runs user
// code and leaves. Around the executor core, beside the client runtime that its tasks submit with;
// both cores belong to the engine's lock. Calls run on the main thread; an actor with
// max_concurrency > 1 has further threads.
#pragma once

#include "base/result.h"
#include "executor/nursery.h"

namespace mobula::internal::executor {

// Runs until the agent or the assignment ends it; the process is over then. Called from init, on the
// main thread.
[[noreturn]] void run_executor(ForkedExecutor start);

}  // namespace mobula::internal::executor
