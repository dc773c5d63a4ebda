// All messages between a process (driver or executor) and the head, in both directions.
// Thread: owner (plain values).
#pragma once

#include "protocol/head_to_process.h"
#include "protocol/process_to_head.h"
