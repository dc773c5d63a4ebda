// Runs an untyped call by the host of this process.
// Thread: any runner; blocks until the call is complete.
#pragma once

#include <memory>

#include "client/engine/task_context.h"
#include "client/executor/core/executor_commands.h"
#include "mobula/detail/registry.h"
#include "protocol/messages/local_control.h"

namespace mobula::internal::executor {

struct UntypedOutcome {
  detail::Outcome outcome;
  bool may_retry = true;
};

// Consumes the arguments of `call`. `results` of a constructor is null, and `created` of other
// calls. The assignment outlives the call.
UntypedOutcome run_untyped_call(const RunCall& run, const AssignExecutor& assignment,
                                const std::shared_ptr<client::TaskContext>& context,
                                const detail::Invocation& call,
                                std::span<detail::StoredValue> arguments);

// The call was cancelled. True at the first time, if the host runs the call: cancel_untyped_call
// follows.
bool begin_cancel(client::TaskContext& context);
// Calls the hook of the host unless the call is complete. Without a lock, on the thread that runs
// the event loop.
void cancel_untyped_call(const client::TaskContext& context);

}  // namespace mobula::internal::executor
