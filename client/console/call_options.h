// Options of calls and actors as JSON objects of a console, with the member names of TaskOptions,
// ActorOptions and CallOptions.
// Thread: any (pure functions).
#pragma once

#include "base/result.h"
#include "client/console/json_values.h"
#include "mobula/options.h"

namespace mobula::internal::runtime::console {

// Errors: invalid_argument with the option that is unknown or has a wrong value.
Result<TaskOptions> task_options(const Json& json);
Result<ActorOptions> actor_options(const Json& json);
Result<CallOptions> method_options(const Json& json);

}  // namespace mobula::internal::runtime::console
