// First use: invalid addresses, output that no process reads, and files of other clusters.
#include <algorithm>
#include <cstdlib>

#include "cli/mobula_program.h"

namespace mobula::internal {
namespace {

using FirstUse = ProgramTest;

TEST_F(FirstUse, InvalidAddress_IsUsageErrorWithoutRetry) {
  const auto outcome = mobula({"run", "--address", "10.0.0.1", "--", "true"});
  EXPECT_EQ(outcome.code, 2);
  expect_one_line(outcome, "has no port");
  EXPECT_EQ(outcome.err.find("retrying"), std::string::npos) << outcome.err;
}

TEST_F(FirstUse, CopiedStateDirectory_StopsNothing) {
  ASSERT_EQ(start_head().code, 0);
  const std::string copy = directory_ + "/copy";
  fs::copy(state(), copy, fs::copy_options::recursive);
  const auto stopped = mobula({"stop", "--state-dir", copy});
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_THAT(stopped.out, HasSubstr("No cluster runs from " + copy));
  EXPECT_EQ(mobula({"status"}).code, 0) << "it goes on";
  fs::rename(state(), directory_ + "/moved");
  const auto moved = mobula({"stop", "--state-dir", directory_ + "/moved"});
  EXPECT_THAT(moved.out, HasSubstr("Cluster 'default' is stopped on this machine"))
      << "the moved state directory holds the same cluster";
}

TEST_F(FirstUse, PrintsCommandsThatWork) {
  const auto started = mobula({"start", "--head", "--no-worker", "--name", "a b", "-o", "json"});
  ASSERT_EQ(started.code, 0) << started.err;
  EXPECT_THAT(started.json().value("join", ""), HasSubstr(" --key '" + state() + "/a b/a b.key'"));
  EXPECT_THAT(mobula({"explain", "{}"}).out, HasSubstr("`mobula start --address HOST:PORT`"))
      << "there is no node";
}

TEST_F(FirstUse, OutputFails_ReportsWhatIsLost) {
  const auto full = [&](const std::string& words) {
    const int status =
        std::system((program + " " + words + " >/dev/full 2>" + directory_ + "/full").c_str());
    return Outcome{WEXITSTATUS(status), "", text_of(directory_ + "/full")};
  };
  ASSERT_EQ(start_head().code, 0);
  for (const std::string words : {"status", "list nodes -o json", "help", "token list"}) {
    const auto outcome = full(words);
    EXPECT_EQ(outcome.code, 1) << words;
    expect_one_line(outcome, "standard output: No space left on device");
  }
  const auto submitted = full("submit --no-wait --name unseen -- true");
  EXPECT_EQ(submitted.code, 1);
  expect_one_line(submitted,
                  mobula({"job", "status", "unseen", "-o", "json"}).json().value("job_id", "none"));
  EXPECT_THAT(full("token create --role driver --name unseen").err,
              HasSubstr("`mobula token revoke "));
}

TEST_F(FirstUse, RemoteCluster_ShowsNoLocalLogs) {
  ASSERT_EQ(start_head().code, 0);
  const std::string eyes = directory_ + "/eyes.token";
  ASSERT_EQ(mobula({"token", "create", "--role", "observer", "--file", eyes}).code, 0);
  // Another cluster has left its log here under the same name, and one under another name.
  const std::string elsewhere = directory_ + "/elsewhere";
  for (const std::string name : {"default", "second"}) {
    fs::create_directories(elsewhere + "/" + name + "/head");
    std::ofstream(elsewhere + "/" + name + "/head/head.log") << "of another\n";
  }
  ::setenv("MOBULA_TOKEN_FILE", eyes.c_str(), 1);
  const auto remote = mobula({"logs", "head", "--state-dir", elsewhere});
  ::unsetenv("MOBULA_TOKEN_FILE");
  EXPECT_EQ(remote.code, 0) << remote.err;
  EXPECT_EQ(remote.out.find("of another"), std::string::npos) << remote.out;
  EXPECT_EQ(mobula({"logs", "head", "--state-dir", elsewhere}).code, 2) << "which is not known";
  // If files of dead clusters exist, commands use the running cluster.
  fs::create_directories(state() + "/second/head");
  std::ofstream(state() + "/second/head/head.log") << "of another\n";
  const auto running = mobula({"logs", "head"});
  EXPECT_EQ(running.code, 0) << running.err;
  EXPECT_EQ(running.out.find("of another"), std::string::npos) << running.out;
}

TEST_F(FirstUse, PrintsHowProgramsJoin) {
  const auto started = mobula({"start", "--head", "--no-worker"});
  ASSERT_EQ(started.code, 0) << started.err;
  EXPECT_THAT(started.out, HasSubstr("Run a program on this machine: ./app\n"));
  const auto second = mobula({"start", "--head", "--no-worker", "--name", "second"});
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("Run a program on this machine: MOBULA_ADDRESS=127.0.0.1:"));
}

TEST_F(FirstUse, ReportsEmptyListsAndMissingMemory) {
  const auto started =
      mobula({"start", "--head", "--num-cpus", "1", "--memory", "90TB", "-o", "json"});
  ASSERT_EQ(started.code, 0) << started.err;
  EXPECT_THAT(started.err, HasSubstr("--memory 81.9 TiB: above the memory of this machine, "));
  EXPECT_EQ(started.json()["warnings"].size(), 1u) << started.out;
  const auto actors = mobula({"list", "actors"});
  EXPECT_EQ(actors.code, 0);
  EXPECT_EQ(actors.err, "mobula: no actors\n");
  EXPECT_EQ(mobula({"list", "nodes", "--filter", "state=dead"}).err,
            "mobula: no nodes match the filters\n");
  EXPECT_EQ(mobula({"job", "list"}).err, "mobula: no submitted jobs\n");
  EXPECT_EQ(mobula({"token", "list"}).err, "mobula: no tokens\n");
  EXPECT_EQ(mobula({"list", "actors", "-o", "json"}).err, "");
  EXPECT_EQ(mobula({"list", "nodes"}).err, "");
}

TEST_F(FirstUse, BenchReceivesNamesAndOptions) {
  const auto listed = mobula({"bench", "streams", "--list"});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_THAT(listed.out, ::testing::StartsWith("streams"));
  EXPECT_EQ(std::count(listed.out.begin(), listed.out.end(), '\n'), 1) << listed.out;
  EXPECT_EQ(mobula({"bench", "--list", "no-such-benchmark"}).code, 7);
  EXPECT_EQ(mobula({"bench", "--lst"}).code, 2);
}

}  // namespace
}  // namespace mobula::internal
