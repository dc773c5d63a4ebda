// The GPU libraries that programs find on this node. A separate process opens them, because they
// are large and run code when they are opened. Blocks.
// Thread: the main thread, at the agent's start, before any other thread starts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace mobula::internal::worker {

struct GpuLibraries {
  std::string cuda;                // version of the driver interface, "12.4"; empty: not usable
  std::string nccl;                // version, "2.21.5"; empty: not usable
  std::vector<std::string> notes;  // unusable libraries, with reasons
};

// `program`: the program that prints the versions (gpu/library_versions.h), with its arguments;
// empty: the result is empty.
GpuLibraries probe_gpu_libraries(const std::vector<std::string>& program, Duration timeout);

// Parses the output of that program.
GpuLibraries read_gpu_libraries(std::string_view printed);

}  // namespace mobula::internal::worker
