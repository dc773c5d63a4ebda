// Runs an untyped call by the host of this process.
// Thread: any runner.
#pragma once

#include <memory>
#include <span>

#include "client/engine/task_context.h"
#include "client/executor/core/executor_commands.h"
#include "client/executor/deferred_call.h"
#include "mobula/detail/registry.h"

namespace mobula::internal::executor {

// Consumes the arguments. A call that is incomplete when the host returns is deferred. A
// constructor is awaited instead.
detail::Outcome run_untyped_call(const RunCall& run, const DeferredCall::Host& executor,
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
