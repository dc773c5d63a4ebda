#include "deploy/provider/slurm_provider.h"

#include <gtest/gtest.h>

namespace mobula::internal::provider {
namespace {

using fleet::FailureKind;
using fleet::ProviderState;

TEST(SlurmProvider, ParsesJobsOfCluster) {
  const auto found = parse_squeue(
      "17|mobula-3f2a-1|RUNNING|1800000000|gpu|None\n"
      "18|mobula-3f2a-2|PENDING|N/A|gpu|QOSMaxJobsPerUserLimit\n"
      "19|other|RUNNING|1800000000|(null)|None\n"
      "20|mobula-3f2a-3|COMPLETING|1800000001|(null)|Odd|Reason\n"
      "21|mobula-3f2a-4|CONFIGURING|1800000002|cpu|None\n",
      "3f2a");
  EXPECT_TRUE(found.complete);
  ASSERT_EQ(found.jobs.size(), 4u);
  EXPECT_EQ(found.jobs[0].ref, "17");
  EXPECT_EQ(found.jobs[0].type, "gpu");
  EXPECT_EQ(found.jobs[0].state, ProviderState::running);
  EXPECT_EQ(found.jobs[0].ends_at, 1'800'000'000);
  EXPECT_EQ(found.jobs[1].state, ProviderState::pending);
  EXPECT_EQ(found.jobs[1].reason, "QOSMaxJobsPerUserLimit");
  EXPECT_FALSE(found.jobs[1].ends_at);
  EXPECT_EQ(found.jobs[2].state, ProviderState::ending);
  EXPECT_EQ(found.jobs[2].type, "");
  EXPECT_EQ(found.jobs[3].state, ProviderState::starting);
}

TEST(SlurmProvider, OtherOutput_IsIncomplete) {
  EXPECT_FALSE(parse_squeue("slurm: something else\n", "3f2a").complete);
  EXPECT_TRUE(parse_squeue("", "3f2a").complete);
}

TEST(SlurmProvider, SecondJobOfName_IsDuplicate) {
  auto found = parse_squeue(
      "9|mobula-a-1|PENDING|N/A|cpu|Priority\n10|mobula-a-1|RUNNING|1800000000|cpu|None\n"
      "12|mobula-a-2|PENDING|N/A|cpu|Priority\n100|mobula-a-2|PENDING|N/A|cpu|Priority\n"
      "13|mobula-a-3|RUNNING|1800000000|cpu|None\n",
      "a");
  EXPECT_EQ(take_duplicates(found.jobs), (std::vector<std::string>{"9", "100"}));
  std::vector<std::string> left;
  for (const auto& each : found.jobs) left.push_back(each.ref);
  EXPECT_EQ(left, (std::vector<std::string>{"10", "12", "13"}));
}

TEST(SlurmProvider, FindsKindOfError) {
  const auto kind = kind_of_slurm_error;
  const std::string failed = "sbatch: error: Batch job submission failed: ";
  EXPECT_EQ(kind(failed + "Job violates accounting/QOS policy (job submit limit, user's size "
                          "and/or time limits)"),
            FailureKind::quota);
  EXPECT_EQ(kind("sbatch: error: QOSMaxSubmitJobPerUserLimit"), FailureKind::quota);
  EXPECT_EQ(kind(failed + "Invalid partition name specified"), FailureKind::invalid);
  EXPECT_EQ(kind(failed + "Requested node configuration is not available"), FailureKind::invalid);
  EXPECT_EQ(kind(failed + "Invalid account or account/partition combination specified"),
            FailureKind::auth);
  EXPECT_EQ(kind(failed + "Required partition not available (inactive or drain)"),
            FailureKind::capacity);
  EXPECT_EQ(kind("squeue: error: Unable to contact slurm controller (connect failure)"),
            FailureKind::transient);
}

}  // namespace
}  // namespace mobula::internal::provider
