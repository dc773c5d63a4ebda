// All messages between a worker agent and the head, in both directions.
// Thread: owner (plain values).
#pragma once

#include "protocol/messages/agent_to_head.h"
#include "protocol/messages/head_to_agent.h"
