#include "client/executor/thread_limits.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>

#include "base/model/granted_threads.h"

namespace mobula::internal::executor {
namespace {

// For each of thread_variables, the function of the library: void (int).
constexpr std::array setters_of_libraries{"omp_set_num_threads", "MKL_Set_Num_Threads",
                                          "openblas_set_num_threads"};
static_assert(setters_of_libraries.size() == thread_variables.size());

}  // namespace

ThreadLimits::ThreadLimits(const Allocation& allocation) : threads_(granted_threads(allocation)) {
  const std::string text = std::to_string(threads_);
  for (std::size_t i = 0; i < thread_variables.size(); ++i) {
    if (std::getenv(thread_variables[i]) != nullptr) continue;
    ::setenv(thread_variables[i], text.c_str(), 1);
    setters_.push_back(setters_of_libraries[i]);
  }
}

void ThreadLimits::apply_to_this_thread() const {
  for (const char* name : setters_) {
    void* symbol = ::dlsym(RTLD_DEFAULT, name);
    if (symbol != nullptr) reinterpret_cast<void (*)(int)>(symbol)(threads_);
  }
}

}  // namespace mobula::internal::executor
