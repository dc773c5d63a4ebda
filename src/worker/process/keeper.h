// The process above an agent. It is a subreaper, forwards SIGTERM, SIGINT and SIGHUP to the agent,
// and has no other duty: when the agent ends by whatever cause it kills everything that descends
// from it, also what made a session of its own or forked twice, waits until all of it is gone, and
// ends with the agent's status. If the keeper itself is killed, so is the agent.
//
// Call before any thread is started; knows nothing of what an agent does.
#pragma once

#include <functional>

#include "base/fd.h"

namespace mobula::internal::worker {

// Forks the agent and stays as its keeper. Returns the agent's exit code, 128 + signal if a signal
// ended it, 70 if it could not be started. Everything below is gone then, and so are all other
// children the caller had. `of_agent`: an fd that the keeper closes once the agent has its copy.
int run_under_keeper(const std::function<int()>& agent_main, Fd* of_agent = nullptr);

}  // namespace mobula::internal::worker
