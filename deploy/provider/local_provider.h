// The provider `local`: an instance is an agent of this machine, in a separate session, with a
// directory that holds its record, state, and log. A lock serializes calls. The record precedes the
// agent, and the agent's process completes it before it runs, so that a killed call leaves no
// process that the next list omits.
// Thread: main. Errors: in the reply.
#pragma once

#include "deploy/fleet/provider_contract.h"

namespace mobula::internal::provider {

// Settings: `directory` (default: STATE_DIR/fleet/CLUSTER_ID) and `max_instances`. `config` of a
// node type: `flags`, added to those of `mobula start`. `mobula` is the program of the agents.
fleet::ProviderReply answer_local(const fleet::ProviderRequest& request, const std::string& mobula);

}  // namespace mobula::internal::provider
