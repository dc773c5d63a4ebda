// All messages between a process (driver or executor) and the head, in both directions.
// Thread: owner (plain values).
#pragma once

#include "protocol/messages/head_to_process.h"
#include "protocol/messages/process_to_head.h"
