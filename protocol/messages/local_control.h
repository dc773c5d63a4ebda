// All messages between a process (driver or executor) and the agent of its machine, in both
// directions.
// Thread: owner (plain values).
#pragma once

#include "protocol/messages/agent_to_process.h"
#include "protocol/messages/process_to_agent.h"
