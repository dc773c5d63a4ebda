// Runs a Python program of the bundle with the machine's python3 and records its findings.
// Thread: any. Not: the environment of the bundle; Python starts with the library path of the
// machine, because the bundle's C++ library would otherwise replace the one that PyTorch was built
// with.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "device/gpu/check/stages/stages.h"

namespace mobula::internal::gpu_check {

enum class PythonEnd { ran, cannot };

// `words`: the program, in the directory of this one, and its arguments. `variables` are set on
// top. A program that does not exit with 0 or 77 fails the stage, with its last line.
PythonEnd run_python(Findings& findings, const std::vector<std::string>& words,
                     const std::map<std::string, std::string>& variables = {});

}  // namespace mobula::internal::gpu_check
