// The number of threads for the CPUs of an allocation, and the variables by which OpenMP, MKL, and
// OpenBLAS read it.
// Thread: any.
#pragma once

#include <algorithm>
#include <array>

#include "base/model/node_shape.h"
#include "base/model/resources.h"

namespace mobula::internal {

inline constexpr std::array thread_variables{"OMP_NUM_THREADS", "MKL_NUM_THREADS",
                                             "OPENBLAS_NUM_THREADS"};

// Returns the number of allocated CPUs, rounded up to a whole number, and at least 1.
inline int granted_threads(const Allocation& allocation) {
  const ResourceShare* cpus = allocation.find(resource::cpu);
  if (cpus == nullptr) return 1;
  Quantity sum;
  for (const auto& share : cpus->shares) sum += share.amount;
  const int whole = static_cast<int>(sum.to_double());
  return std::max(1, Quantity::whole(whole) < sum ? whole + 1 : whole);
}

}  // namespace mobula::internal
