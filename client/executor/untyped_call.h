// Runs calls without C++ types by the language host of this process (<mobula/dynamic.h>).
// Thread: any runner.
#pragma once

#include <memory>
#include <span>

#include "client/engine/callee/task_context.h"
#include "client/executor/core/executor_commands.h"
#include "client/executor/deferred_call.h"
#include "mobula/detail/registry.h"

namespace mobula::internal::executor {

// Runs the call and consumes its arguments. A call that is incomplete when the host returns becomes
// a deferred call; for a constructor, this function blocks until it is complete.
detail::Outcome run_untyped_call(const RunCall& run, const DeferredCall::Host& executor,
                                 const std::shared_ptr<client::TaskContext>& context,
                                 const detail::Invocation& call,
                                 std::span<detail::StoredValue> arguments);

// Marks a running call as cancelled. Returns true the first time if the host runs the call; the
// caller then calls cancel_untyped_call.
bool begin_cancel(client::TaskContext& context);
// Calls the host's `cancel` hook unless the call is complete. Called without a lock, on the thread
// that runs the event loop.
void cancel_untyped_call(const client::TaskContext& context);

}  // namespace mobula::internal::executor
