// The --mobula-* flags and MOBULA_* variables of a program that calls init: one per field of
// InitOptions. Called at start, on the main thread.
#pragma once

#include "base/result.h"
#include "mobula/options.h"

namespace mobula::internal::runtime {

// Takes the flags (--mobula-num-cpus=4 or --mobula-num-cpus 4) out of the arguments and puts them over
// `options`. invalid_argument names the flag and what it takes.
Result<void> take_flags(int& argc, char** argv, InitOptions& options);

}  // namespace mobula::internal::runtime
