// All messages between a worker agent and the head, in both directions.
// Thread: owner (plain values).
#pragma once

#include "protocol/agent_to_head.h"
#include "protocol/head_to_agent.h"
