// The identity under which a failed start is recorded: a program together with its environment,
// because the environment decides which libraries a loader finds.
// Thread: any. Not: how long a failure is recorded.
#pragma once

#include "base/model/request.h"

namespace mobula::internal {

// The id of the program if `env` is empty.
ProgramId start_identity(ProgramId program, const Environment& env);

}  // namespace mobula::internal
