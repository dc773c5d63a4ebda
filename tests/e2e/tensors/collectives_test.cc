// Collective groups of actors in real processes.
#include <sys/stat.h>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

class Collectives : public ClusterTest {
 protected:
  std::string pipe() {
    const std::string path = directory() + "/pipe";
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    return path;
  }
};

constexpr Milliseconds long_enough{150'000};

TEST_F(Collectives, MatchesReferenceWithTwoMembers) {
  drive({"collective_operations", "automatic", "2", "--mobula-num-cpus=2"}, long_enough);
}

TEST_F(Collectives, RunsThreeMembersOverSharedMemory) {
  drive({"collective_operations", "shm", "3", "--mobula-num-cpus=2"}, long_enough);
}

TEST_F(Collectives, RunsFiveMembersOverTcp) {
  drive({"collective_operations", "tcp", "5", "--mobula-num-cpus=2"}, long_enough);
}

TEST_F(Collectives, RunsBetweenNodes) {
  start_head({"--num-cpus", "2"});
  start_node("b", {"--num-cpus", "2", "--resources", R"({"there": 8})"});
  drive({"collective_operations", "tcp", "3", "there"}, long_enough);
}

TEST_F(Collectives, SupportsActorsInSeveralGroups) {
  drive({"collective_groups", "--mobula-num-cpus=2"});
}

TEST_F(Collectives, CreatesGroupWhileActorsAreBusy) {
  drive({"collective_busy", pipe(), "--mobula-num-cpus=2"});
}

TEST_F(Collectives, MemberMismatch_NamedAndGroupContinues) {
  drive({"collective_mismatches", "automatic", "--mobula-num-cpus=2"});
}

TEST_F(Collectives, MemberKilled_OperationFailsAtOthers) {
  drive({"collective_deaths", "shm", "--mobula-num-cpus=2"}, long_enough);
}

TEST_F(Collectives, RemoteMemberKilled_OperationFailsAtOthers) {
  start_head({"--num-cpus", "2"});
  start_node("b", {"--num-cpus", "2", "--resources", R"({"there": 8})"});
  drive({"collective_deaths", "tcp", "there"}, long_enough);
}

TEST_F(Collectives, TimeoutOrCancel_BreaksGroupNotActors) {
  drive({"collective_time_outs", "--mobula-num-cpus=2"});
}

// Runs over the libraries of plugins, if they were installed at build time.
class CollectivesByPlugins : public Collectives, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (::access((programs + "/../lib/mobula/mobula_transport_" + GetParam() + ".so").c_str(),
                 R_OK) != 0) {
      GTEST_SKIP() << GetParam() << " was not installed where this was built";
    }
  }
};

TEST_P(CollectivesByPlugins, MatchesReference) {
  drive({"collective_operations", GetParam(), "3", "--mobula-num-cpus=2"}, long_enough);
}

TEST_P(CollectivesByPlugins, MemberKilled_OperationFailsAtOthers) {
  drive({"collective_deaths", GetParam(), "--mobula-num-cpus=2"}, long_enough);
}

TEST_P(CollectivesByPlugins, RejectsUntrustedFabric) {
  more_environment["MOBULA_TEST_SEPARATE_HOSTS"] = "1";
  start_head({"--num-cpus", "2", "--resources", R"({"here": 8})"});
  start_node("b", {"--num-cpus", "2", "--resources", R"({"there": 8})"});
  drive({"collective_refused", GetParam(), "fabric not trusted", "here", "there"}, long_enough);
}

INSTANTIATE_TEST_SUITE_P(Libraries, CollectivesByPlugins, testing::Values("gloo", "ucx"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace mobula::e2e
