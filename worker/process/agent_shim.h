// The agent shim: the process above an agent. It is a subreaper and forwards SIGTERM, SIGINT and
// SIGHUP to the agent. When the agent exits for any cause, the shim kills all its descendants, also
// those in other sessions or forked twice. It waits for their exit and exits with the agent's
// status. If the shim is killed, the kernel kills the agent.
// Thread: the main thread, before any other thread starts.
#pragma once

#include <functional>

#include "base/fd.h"
#include "worker/process/orphans.h"

namespace mobula::internal::worker {

// Forks the agent and continues as its shim. Returns the agent's exit code, 128 + signal if a
// signal ended it, 70 if it could not be started. By then all descendants and all other children of
// the caller have exited. `of_agent`: a descriptor that the shim closes after the agent has its
// copy. `spares`: descendants that survive the agent, such as other agents that it launched. With
// it, the shim uses no control group.
int run_under_shim(const std::function<int()>& agent_main, Fd* of_agent = nullptr,
                   const SparedProcesses& spares = {});

}  // namespace mobula::internal::worker
