// Part of a GPU that actors of the scenarios request for each GPU, so that scenarios for several
// GPUs also run with actors that share one.
// Thread: any; reads the environment.
#pragma once

#include <cstdlib>

namespace mobula::e2e {

// MOBULA_TEST_GPU_PART, by default a whole GPU.
inline double part_of_gpu() {
  const char* const part = std::getenv("MOBULA_TEST_GPU_PART");
  return part == nullptr ? 1.0 : std::strtod(part, nullptr);
}

}  // namespace mobula::e2e
