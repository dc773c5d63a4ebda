// Tests of docs/api.md, sections 2 to 4, all on one cluster of this machine.
// tests/contract/rules.md names the rule of each test.
#include <gtest/gtest.h>

#include <mobula/mobula.h>

int main(int argc, char** argv) {
  const auto cluster = mobula::init(argc, argv,
                                    {.num_cpus = 4,
                                     .num_gpus = 2,
                                     .resources = {{"shuttle", 2}},
                                     .accelerator_type = "H100",
                                     .labels = {{"zone", "a"}},
                                     .job_name = "contract",
                                     .name_space = "contract",
                                     .env = {{"CONTRACT_JOB_VARIABLE", "of the job"}},
                                     .max_pending_bytes = 4 << 20,
                                     .job_quota = {{"shuttle", 2}}});
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
