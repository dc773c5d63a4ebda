// Limits the threads of numerical libraries (OpenMP, MKL, OpenBLAS) to the CPUs of this executor's
// slot, at least one. A variable set by the user wins. Loaded libraries have read their variables
// already, so their functions are called too; OpenMP keeps its limit per thread.
// Thread: owner for construction (before other threads start); any for apply_to_this_thread.
#pragma once

#include <vector>

#include "base/model/node_shape.h"

namespace mobula::internal::executor {

class ThreadLimits {
 public:
  // Sets OMP_NUM_THREADS, MKL_NUM_THREADS, and OPENBLAS_NUM_THREADS unless the environment has
  // them.
  explicit ThreadLimits(const Allocation& allocation);

  // Calls the setters of the loaded libraries. Required once in each thread that runs user code.
  void apply_to_this_thread() const;

 private:
  int threads_;
  std::vector<const char*> setters_;  // functions of libraries whose variable the user has not set
};

}  // namespace mobula::internal::executor
