// Options of calls and actors as JSON objects, as a console gives them: by the names of TaskOptions,
// ActorOptions and CallOptions. Pure; any thread.
#pragma once

#include "base/result.h"
#include "mobula/options.h"
#include "runtime/json_values.h"

namespace mobula::internal::runtime::console {

// invalid_argument names the option that is unknown or has a wrong value.
Result<TaskOptions> task_options(const Json& json);
Result<ActorOptions> actor_options(const Json& json);
Result<CallOptions> method_options(const Json& json);

}  // namespace mobula::internal::runtime::console
