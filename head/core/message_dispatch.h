// Dispatches messages of agents, and of processes through their agents, to the tables, after it has
// checked that the sender may send them. Stateless.
// Thread: owner (one HeadCore).
#pragma once

#include <string>
#include <string_view>

#include "base/id.h"
#include "base/model/jobs/principal.h"
#include "protocol/messages/agent_control.h"

namespace mobula::internal::head {

struct HeadTables;

// Returns the text for a principal that may not use the verb, with the remedy.
std::string may_not(std::string_view verb, const Principal& principal);

// Counts a rejection and logs it, at most once per minute and source. Returns whether it was
// logged.
bool note_refusal(HeadTables& tables, const Principal& principal, const std::string& what);

// Whether the message replies to a query that the head sent to processes.
bool is_reply(const ProcessToHead& message);

// Handles the next message of the agent that is registered for `node`.
void take_agent_message(HeadTables& tables, NodeId node, AgentMessage message);

}  // namespace mobula::internal::head
