// Between a process (driver or executor) and the head, in both directions.
#pragma once

#include "protocol/head_to_process.h"
#include "protocol/process_to_head.h"
