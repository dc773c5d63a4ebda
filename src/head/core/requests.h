// Sorts what agents say, and what processes say through them, to the tables, after checking that
// the speaker may say it. Stateless.
#pragma once

#include "base/id.h"
#include "protocol/agent_control.h"

namespace mobula::internal::head {

struct Parts;

// The next message of the agent that is registered for `node`.
void take_agent_message(Parts& parts, NodeId node, AgentMessage message);

}  // namespace mobula::internal::head
