// Tests of Tune that run trials on a cluster of this machine.
#include <gtest/gtest.h>

#include "tune/runtime/run_fixture.h"

int main(int argc, char** argv) {
  const bool driver = !mobula::in_executor();
  const std::string storage = mobula::testing::tune_storage();
  int failed = 0;
  {
    const auto cluster =
        mobula::init(argc, argv, {.num_cpus = 4, .num_gpus = 1, .resources = {{"license", 2}}});
    ::testing::InitGoogleTest(&argc, argv);
    failed = RUN_ALL_TESTS();
  }
  if (driver) std::filesystem::remove_all(storage);
  return failed;
}
