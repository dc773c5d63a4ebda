#include "cli/commands/start/head_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "protocol/program/cluster_files.h"

namespace mobula::internal::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class HeadFlags : public ::testing::Test {
 protected:
  HeadFlags() {
    char name[] = "/tmp/mobula-head-flags-XXXXXX";
    state_ = ::mkdtemp(name);
  }
  ~HeadFlags() override { fs::remove_all(state_); }

  CommandLine line(const std::string& cluster = "default") const {
    CommandLine line;
    line.command = "start";
    line.state_dir = state_;
    line.cluster = cluster;
    line.start.head = true;
    return line;
  }
  // Leaves the files of a head that has died.
  void head_was(const StartOptions& start, const std::string& cluster = "default") const {
    fs::create_directories(state_ + "/" + cluster + "/head");
    ASSERT_TRUE(save_head_flags(start, state_ + "/" + cluster));
    std::ofstream(state_ + "/" + cluster + "/head/journal.sqlite") << "";
    HeadFile file;
    file.cluster = cluster;
    file.address = "10.78.0.1:8000";
    file.pid = 0;
    ASSERT_TRUE(save(file, state_ + "/" + cluster + "/head/head.json"));
  }
  std::string state_;
};

TEST_F(HeadFlags, UnsetFlags_KeepEarlierValues) {
  StartOptions was;
  was.bind = "10.78.0.1";
  was.advertise = "head.example";
  was.http = "127.0.0.1:8265";
  was.autoscale = "/etc/mobula/types.yaml";
  was.trusted_fabric = true;
  was.preempt_delay = Duration(std::chrono::milliseconds(2500));
  head_was(was);
  auto now = line();
  const auto added = add_head_flags_of_before(now);
  ASSERT_TRUE(added) << added.error().text;
  EXPECT_EQ(*added,
            "--bind 10.78.0.1 --advertise head.example --http 127.0.0.1:8265 "
            "--autoscale /etc/mobula/types.yaml --trusted-fabric "
            "--preemption lower-priority "
            "--preempt-after 2.5");
  EXPECT_EQ(now.start.bind, was.bind);
  EXPECT_EQ(now.start.advertise, was.advertise);
  EXPECT_EQ(now.start.http, was.http);
  EXPECT_EQ(now.start.autoscale, was.autoscale);
  EXPECT_TRUE(now.start.trusted_fabric);
  EXPECT_EQ(now.start.preempt_delay, was.preempt_delay);
}

TEST_F(HeadFlags, GivenFlags_OverrideEarlierValues) {
  StartOptions was;
  was.bind = "10.78.0.1";
  was.advertise = "head.example";
  was.http = "127.0.0.1:8265";
  was.autoscale = "/etc/mobula/types.yaml";
  was.preempt_delay = Duration(std::chrono::seconds(5));
  head_was(was);
  auto now = line();
  now.start.bind = "10.78.0.2";
  now.start.http_given = true;       // --http off
  now.start.autoscale_given = true;  // --autoscale off
  now.start.preemption_given = true;
  const auto added = add_head_flags_of_before(now);
  ASSERT_TRUE(added);
  EXPECT_EQ(*added, "") << "the advertised address is dropped together with the old bind address";
  EXPECT_EQ(now.start.bind, "10.78.0.2");
  EXPECT_TRUE(now.start.http.empty());
  EXPECT_TRUE(now.start.autoscale.empty());
  EXPECT_FALSE(now.start.preempt_delay);
}

TEST_F(HeadFlags, InsecureHead_StaysSoOnlyOnThisHost) {
  StartOptions was;
  was.insecure = true;
  head_was(was);
  auto same = line();
  EXPECT_EQ(add_head_flags_of_before(same).value(), "--insecure");
  auto wider = line();
  wider.start.bind = "10.78.0.1";
  EXPECT_EQ(add_head_flags_of_before(wider).value(), "");
  EXPECT_FALSE(wider.start.insecure);
}

TEST_F(HeadFlags, UsesNameOfOneClusterWithDeadHead) {
  head_was({}, "blue");
  auto now = line("");
  EXPECT_EQ(add_head_flags_of_before(now).value(), "--name blue");
  EXPECT_EQ(now.cluster, "blue");
  head_was({}, "green");
  auto which = line("");
  EXPECT_EQ(add_head_flags_of_before(which).value(), "");
  EXPECT_EQ(which.cluster, "") << "there are two";
  head_was({});
  fs::remove_all(state_ + "/green");
  auto usual = line("");
  EXPECT_EQ(add_head_flags_of_before(usual).value(), "");
  EXPECT_EQ(usual.cluster, "") << "there is one with the usual name";
}

TEST_F(HeadFlags, NewDirectory_HasNoFlagsAndBrokenFileNamed) {
  auto fresh = line();
  EXPECT_EQ(add_head_flags_of_before(fresh).value(), "");
  head_was({});
  std::ofstream(state_ + "/default/head/flags.json") << "{";
  auto broken = line();
  const auto added = add_head_flags_of_before(broken);
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().text, HasSubstr("head/flags.json"));
  std::ofstream(state_ + "/default/head/flags.json")
      << R"({"bind": 3, "http": null, "insecure": "yes", "preempt_after_ms": -1})";
  EXPECT_EQ(add_head_flags_of_before(broken).value(), "") << "values of a wrong type add no flags";
}

TEST_F(HeadFlags, PrintsFullRestartCommand) {
  head_was({}, "blue");
  EXPECT_EQ(restart_command(state_, "blue"),
            "mobula start --head --no-worker --name blue --state-dir " + state_);
  fs::create_directories(state_ + "/blue/agent");
  EXPECT_EQ(restart_command(state_, "blue"),
            "mobula start --head --name blue --state-dir " + state_);
  StartOptions of_file;
  of_file.made_by = "mobula up '/etc/my clusters/blue.yaml'";
  head_was(of_file, "blue");
  EXPECT_EQ(restart_command(state_, "blue"),
            "mobula up '/etc/my clusters/blue.yaml', in the directory of that file");
  auto by_hand = line("blue");
  ASSERT_TRUE(add_head_flags_of_before(by_hand));
  EXPECT_EQ(by_hand.start.made_by, of_file.made_by) << "the origin recorded by the file is kept";
  EXPECT_EQ(cluster_flags(default_state_dir(), "default"), "");
}

}  // namespace
}  // namespace mobula::internal::cli
