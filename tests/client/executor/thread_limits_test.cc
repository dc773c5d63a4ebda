#include "client/executor/thread_limits.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/model/granted_threads.h"

namespace {

int limit_of_openmp = 0;
int limit_of_openblas = 0;

}  // namespace

// Functions of libraries, found by name in this program.
extern "C" {
__attribute__((visibility("default"))) void omp_set_num_threads(int threads) {
  limit_of_openmp = threads;
}
__attribute__((visibility("default"))) void openblas_set_num_threads(int threads) {
  limit_of_openblas = threads;
}
}

namespace mobula::internal::executor {
namespace {

Allocation with_cpus(std::int64_t units) {
  Allocation allocation;
  allocation.resources.push_back({"CPU", {{0, Quantity::from_units(units), 0}}});
  return allocation;
}

TEST(ThreadLimits, RoundsGrantedCpusUpToOne) {
  EXPECT_EQ(granted_threads(Allocation{}), 1);
  EXPECT_EQ(granted_threads(with_cpus(1)), 1);
  EXPECT_EQ(granted_threads(with_cpus(10'000)), 1);
  EXPECT_EQ(granted_threads(with_cpus(25'000)), 3);
  EXPECT_EQ(granted_threads(with_cpus(80'000)), 8);
}

TEST(ThreadLimits, KeepsUserVariables) {
  for (const char* name : thread_variables) ::unsetenv(name);
  ::setenv("OMP_NUM_THREADS", "12", 1);
  const ThreadLimits limits(with_cpus(30'000));
  EXPECT_STREQ(std::getenv("OMP_NUM_THREADS"), "12");
  EXPECT_STREQ(std::getenv("MKL_NUM_THREADS"), "3");
  EXPECT_STREQ(std::getenv("OPENBLAS_NUM_THREADS"), "3");
  limits.apply_to_this_thread();
  EXPECT_EQ(limit_of_openmp, 0);
  EXPECT_EQ(limit_of_openblas, 3);
  for (const char* name : thread_variables) ::unsetenv(name);
}

}  // namespace
}  // namespace mobula::internal::executor
