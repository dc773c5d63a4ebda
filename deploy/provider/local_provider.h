// The provider `local`: an instance is an agent of this machine, in a separate session, with a
// directory that holds its record, state, and log. A lock serializes calls. The record precedes the
// agent, and the agent's process completes it before it runs, so that a killed call leaves no
// process that the next list omits.
// Thread: main. Errors: in the reply.
#pragma once

#include <sys/types.h>

#include "deploy/fleet/provider_contract.h"

namespace mobula::internal::provider {

// True for a process of an instance of this machine, unless it is that of the caller.
bool is_instance(pid_t pid);

// Settings: `directory` (default: STATE_DIR/fleet/CLUSTER_ID) and `max_instances`. `config` of a
// node type: `flags`, added to those of `mobula start`. `mobula` is the program of the agents.
fleet::ProviderReply answer_local(const fleet::ProviderRequest& request, const std::string& mobula);

}  // namespace mobula::internal::provider
