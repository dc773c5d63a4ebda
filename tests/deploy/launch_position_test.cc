#include "deploy/launch_position.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace mobula::internal::deploy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Variables = std::map<std::string, std::string>;

Result<LaunchPosition> position_with(const Variables& variables, const PositionFlags& flags = {}) {
  return position_of(
      [&](const char* name) {
        const auto at = variables.find(name);
        return at == variables.end() ? std::nullopt : std::optional(at->second);
      },
      flags);
}

TEST(LaunchPositionTest, NoLauncher_RankIsAlone) {
  const auto position = position_with({});
  ASSERT_TRUE(position);
  EXPECT_EQ(position->rank, 0);
  EXPECT_EQ(position->size, 1);
  EXPECT_EQ(position->launcher, "none");
}

TEST(LaunchPositionTest, ReadsSlurmVariables) {
  const auto position = position_with({{"SLURM_PROCID", "2"},
                                       {"SLURM_NTASKS", "3"},
                                       {"SLURM_LOCALID", "0"},
                                       {"SLURM_JOB_ID", "41"},
                                       {"SLURM_STEP_ID", "1"},
                                       {"SLURM_JOB_NODELIST", "n[1-3]"}});
  ASSERT_TRUE(position) << position.error().text;
  EXPECT_EQ(position->rank, 2);
  EXPECT_EQ(position->size, 3);
  EXPECT_EQ(position->run, "41.1.0");
  EXPECT_TRUE(position->unique);
  EXPECT_THAT(position->hosts, ElementsAre("n1", "n2", "n3"));
}

TEST(LaunchPositionTest, RestartedJob_HasAnotherName) {
  const auto position = position_with({{"SLURM_PROCID", "0"},
                                       {"SLURM_NTASKS", "2"},
                                       {"SLURM_JOB_ID", "41"},
                                       {"SLURM_STEP_ID", "0"},
                                       {"SLURM_RESTART_COUNT", "2"}});
  ASSERT_TRUE(position);
  EXPECT_EQ(position->run, "41.0.2");
}

TEST(LaunchPositionTest, BatchScript_IsAdvisedToUseSrun) {
  const auto position =
      position_with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "3"}, {"SLURM_JOB_ID", "41"}});
  ASSERT_FALSE(position);
  EXPECT_THAT(position.error().text, HasSubstr("srun mobula symmetric"));
}

TEST(LaunchPositionTest, MpiInSlurmJob_PrecedesBatchScript) {
  const auto position = position_with({{"SLURM_PROCID", "0"},
                                       {"SLURM_NTASKS", "8"},
                                       {"SLURM_JOB_ID", "41"},
                                       {"PMI_RANK", "3"},
                                       {"PMI_SIZE", "4"},
                                       {"MPI_LOCALRANKID", "1"}});
  ASSERT_TRUE(position) << position.error().text;
  EXPECT_EQ(position->launcher, "PMI");
  EXPECT_EQ(position->rank, 3);
  EXPECT_EQ(position->size, 4);
  EXPECT_EQ(position->local_rank, 1);
}

TEST(LaunchPositionTest, ReadsOpenMpiVariables) {
  const auto position = position_with({{"OMPI_COMM_WORLD_RANK", "1"},
                                       {"OMPI_COMM_WORLD_SIZE", "2"},
                                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                       {"PMIX_NAMESPACE", "prterun-host-12@1"}});
  ASSERT_TRUE(position);
  EXPECT_EQ(position->local_rank, 1);
  EXPECT_EQ(position->run, "prterun-host-12-1");
}

TEST(LaunchPositionTest, PrefersFlagsToVariables) {
  PositionFlags flags;
  flags.rank = 1;
  flags.size = 4;
  flags.run = "a/b";
  const auto position = position_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, flags);
  ASSERT_TRUE(position);
  EXPECT_EQ(position->rank, 1);
  EXPECT_EQ(position->size, 4);
  EXPECT_EQ(position->run, "a-b");
}

TEST(LaunchPositionTest, NamesMissingOrInvalidVariable) {
  EXPECT_THAT(position_with({{"PMI_RANK", "0"}}).error().text, HasSubstr("PMI_SIZE"));
  EXPECT_THAT(position_with({{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}).error().text,
              HasSubstr("PMI_RANK: 'x'"));
  EXPECT_THAT(position_with({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}).error().text,
              HasSubstr("rank 2 of 2"));
  PositionFlags half;
  half.rank = 0;
  EXPECT_THAT(position_with({}, half).error().text, HasSubstr("--size"));
  EXPECT_THAT(
      position_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}}).error().text,
      HasSubstr("rank 0"));
}

TEST(ExpandHosts, ExpandsRangesAndLeadingZeros) {
  EXPECT_THAT(*expand_hosts("n[1-3,07],login"), ElementsAre("n1", "n2", "n3", "n07", "login"));
  EXPECT_THAT(*expand_hosts("gpu[008-011]"), ElementsAre("gpu008", "gpu009", "gpu010", "gpu011"));
  EXPECT_THAT(*expand_hosts("r[1-2]c[1,3]-ib"),
              ElementsAre("r1c1-ib", "r1c3-ib", "r2c1-ib", "r2c3-ib"));
  EXPECT_THAT(*expand_hosts(""), IsEmpty());
}

TEST(ExpandHosts, RejectsInvalidLists) {
  for (const char* text : {"n[1-3", "n[3-1]", "n[a-b]", "n[]", "n[0-999999]", "n[1-999]m[1-999]"}) {
    EXPECT_FALSE(expand_hosts(text)) << text;
  }
}

}  // namespace
}  // namespace mobula::internal::deploy
