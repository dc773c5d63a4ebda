// The --mobula-* flags and MOBULA_* variables of a program that calls init: one per field of
// InitOptions.
// Thread: main thread, at start.
#pragma once

#include "base/result.h"
#include "mobula/options.h"

namespace mobula::internal::runtime {

// Removes the flags (--mobula-num-cpus=4 or --mobula-num-cpus 4) from the arguments and applies
// them to `options`.
// Errors: invalid_argument with the flag and its expected value.
Result<void> take_flags(int& argc, char** argv, InitOptions& options);

}  // namespace mobula::internal::runtime
