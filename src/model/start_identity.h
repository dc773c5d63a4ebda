// The identity under which a failed start is remembered: a program together with its environment,
// because the environment decides which libraries a loader finds.
// Thread: any. Not: how long a failure is remembered.
#pragma once

#include "model/request.h"

namespace mobula::internal {

// The program's own id if `env` is empty.
ProgramId start_identity(ProgramId program, const Environment& env);

}  // namespace mobula::internal
