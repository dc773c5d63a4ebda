// Ends the processes that a stage left behind.
// Thread: owner. Not: processes of others; only children of this process, direct or inherited.
#pragma once

#include "base/time.h"

namespace mobula::internal::gpu_check {

// Makes this process the parent of orphans below it (PR_SET_CHILD_SUBREAPER).
void adopt_orphans();

// Kills and reaps every process below this one. Returns false if some still run after `timeout`,
// for example in an uninterruptible call of the driver.
bool end_descendants(Duration timeout);

}  // namespace mobula::internal::gpu_check
