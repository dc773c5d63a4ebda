// Sorts what agents say, and what processes say through them, to the tables, after checking that
// the speaker may say it. Stateless.
#pragma once

#include <string>
#include <string_view>

#include "base/id.h"
#include "model/principal.h"
#include "protocol/agent_control.h"

namespace mobula::internal::head {

struct Parts;

// What is told who may not ask or order that, and what to do.
std::string may_not(std::string_view verb, const Principal& principal);

// Counts what somebody may not do, and says so in the log, once a minute of each source; whether it did.
bool note_refusal(Parts& parts, const Principal& principal, const std::string& what);

// The next message of the agent that is registered for `node`.
void take_agent_message(Parts& parts, NodeId node, AgentMessage message);

}  // namespace mobula::internal::head
