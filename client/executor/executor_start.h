// The first messages of the agent to an executor that has no loop yet. Each call blocks.
// Thread: main thread.
// Errors: the process exits with 1 and prints the reason.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "protocol/messages/local_control.h"

namespace mobula::internal::executor {

PrepareExecutor receive_preparation(const Fd& link);
// A prestarted executor may wait for a long time. When the agent exits, so does this process.
AssignExecutor receive_assignment(const Fd& link);

[[noreturn]] void refuse_to_start(const Failure& why);

}  // namespace mobula::internal::executor
