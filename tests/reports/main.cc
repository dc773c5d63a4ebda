// Reproduces public bug reports of other systems on one cluster: 4 CPUs, 2 logical GPUs, 2 units of
// "lane", and a store of 64 MiB.
#include <gtest/gtest.h>

#include <mobula/mobula.h>

int main(int argc, char** argv) {
  const auto cluster = mobula::init(argc, argv,
                                    {.num_cpus = 4,
                                     .num_gpus = 2,
                                     .object_store_memory = 64 << 20,
                                     .resources = {{"lane", 2}},
                                     .name_space = "reports"});
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
