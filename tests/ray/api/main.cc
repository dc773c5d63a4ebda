// Ports of Ray's API tests, all on one cluster: 4 CPUs, 2 logical GPUs, and 2 units of the custom
// resource "lane".
#include <gtest/gtest.h>

#include <mobula/mobula.h>

int main(int argc, char** argv) {
  const auto cluster = mobula::init(
      argc, argv, {.num_cpus = 4, .num_gpus = 2, .resources = {{"lane", 2}}, .name_space = "ray"});
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
