// Which libraries of GPUs an agent's programs will find on its node. A process of its own opens them, since they are
// large and run code when they are opened. Blocks; for the agent's start, before it has threads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace mobula::internal::worker {

struct GpuLibraries {
  std::string cuda;  // version of the driver's interface, "12.4"; empty: it cannot be used
  std::string nccl;  // likewise, "2.21.5"
  std::vector<std::string> notes;  // what cannot be used, and why
};

// `program`: what prints them (gpu/library_versions.h), and its arguments; empty: nothing is found out.
GpuLibraries ask_gpu_libraries(const std::vector<std::string>& program, Duration within);

// Of what that program has printed.
GpuLibraries read_gpu_libraries(std::string_view printed);

}  // namespace mobula::internal::worker
