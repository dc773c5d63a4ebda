// Preemption on real processes: a task is ended for work of a higher priority, and runs again.
#include <sys/stat.h>

#include <fstream>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

class Preemption : public ClusterTest {
 protected:
  // Starts a cluster of one CPU. A task of priority 0 holds the CPU until `release("holds")`. A
  // task of priority 1 requests it and runs until `release("urgent")`.
  void start(Words flags, const std::string& max_retries) {
    Words all{"--num-cpus", "1"};
    all.insert(all.end(), flags.begin(), flags.end());
    start_head(all);
    for (const char* name : {"holds", "urgent"}) {
      ASSERT_EQ(::mkfifo(pipe_of(name).c_str(), 0600), 0);
    }
    low_.emplace(start_driver({"holds_a_cpu", pipe_of("holds"), max_retries}));
    ASSERT_TRUE(low_->prints("ready")) << low_->err();
    ASSERT_TRUE(comes_to("holds", "RUNNING")) << mobula({"list", "tasks"}).out;
    high_.emplace(start_driver({"wants_a_cpu", pipe_of("urgent"), "--mobula-job-priority", "1"}));
    ASSERT_TRUE(high_->prints("ready")) << high_->err();
  }
  std::string pipe_of(const std::string& task) const { return directory() + "/" + task + ".pipe"; }
  // Releases a running task, which reads the pipe.
  void release(const std::string& task) const { std::ofstream(pipe_of(task)) << "go\n"; }
  Json task(const std::string& name) {
    const Ended ended = mobula({"list", "tasks", "--filter", "name=" + name, "-o", "json"});
    const Json list = Json::parse(ended.out, nullptr, false);
    if (ended.code != 0 || list["items"].size() != 1) return Json::object();
    return list["items"][0];
  }
  std::size_t running() {
    const Ended ended = mobula(
        {"list", "tasks", "--filter", "name=holds", "--filter", "state=RUNNING", "-o", "json"});
    const Json list = Json::parse(ended.out, nullptr, false);
    return ended.code == 0 ? list["items"].size() : 0;
  }
  bool comes_to(const std::string& name, const std::string& state) {
    return eventually(Milliseconds(30'000), [&] { return task(name).value("state", "") == state; });
  }
  Json preemption() {
    return Json::parse(mobula({"status", "-o", "json"}).out, nullptr, false)["preemption"];
  }
  void low_ends() {
    low_->say("end");
    EXPECT_EQ(low_->wait().code, 0);
  }

  std::optional<Process> low_;
  std::optional<Process> high_;
  const Words on_{"--preemption", "lower-priority", "--preempt-after", "0.2"};
};

TEST_F(Preemption, RetryableTask_IsPreemptedAndRunsAgain) {
  ASSERT_NO_FATAL_FAILURE(start(on_, "1"));
  ASSERT_TRUE(comes_to("urgent", "RUNNING")) << mobula({"list", "tasks"}).out;
  const Json waits = task("holds");
  EXPECT_EQ(waits["state"], "PENDING_NODE_ASSIGNMENT") << waits;
  EXPECT_EQ(waits["preemptions"], 1) << waits;
  EXPECT_EQ(waits["retries_left"], 1) << "not charged";
  EXPECT_NE(waits["reason"].get<std::string>().find("higher priority"), std::string::npos) << waits;
  EXPECT_EQ(preemption()["policy"], "lower-priority");
  EXPECT_EQ(preemption()["asked"], 1);
  EXPECT_NE(mobula({"logs", "head"}).out.find("preemption: slot"), std::string::npos);

  release("urgent");
  EXPECT_EQ(high_->wait().code, 0);
  EXPECT_NE(high_->out().find("attempt 0"), std::string::npos);
  ASSERT_TRUE(comes_to("holds", "RUNNING"));
  release("holds");
  EXPECT_TRUE(low_->prints("attempt 1")) << low_->err();
  EXPECT_EQ(task("holds")["preemptions"], 1) << "it is remembered";
  low_ends();
}

TEST_F(Preemption, SparesNonRetryableTask) {
  ASSERT_NO_FATAL_FAILURE(start(on_, "0"));
  ASSERT_TRUE(
      eventually(Milliseconds(30'000), [&] { return preemption().value("refused", 0) > 0; }));
  EXPECT_EQ(task("holds")["state"], "RUNNING");
  EXPECT_EQ(task("urgent")["state"], "PENDING_NODE_ASSIGNMENT");
  release("holds");
  EXPECT_TRUE(low_->prints("attempt 0")) << low_->err();
  ASSERT_TRUE(comes_to("urgent", "RUNNING"));
  release("urgent");
  EXPECT_EQ(high_->wait().code, 0);
  EXPECT_EQ(task("holds")["preemptions"], 0);
  low_ends();
}

// The group needs the capacity of both tasks. Neither task is preempted while one of them may not
// run again.
TEST_F(Preemption, PreemptsForGroupOnlyWhenAllBundlesFit) {
  Words all{"--num-cpus", "2"};
  all.insert(all.end(), on_.begin(), on_.end());
  start_head(all);
  for (const char* name : {"first", "second"}) ASSERT_EQ(::mkfifo(pipe_of(name).c_str(), 0600), 0);
  const auto hold = [&](const char* retries) {
    low_.emplace(start_driver({"holds_two_cpus", pipe_of("first"), pipe_of("second"), retries}));
    ASSERT_TRUE(low_->prints("ready")) << low_->err();
    ASSERT_TRUE(eventually(Milliseconds(30'000), [&] { return running() == 2; }))
        << mobula({"list", "tasks"}).out;
  };
  hold("0");
  high_.emplace(start_driver({"wants_a_group", "--mobula-job-priority", "1"}));
  ASSERT_TRUE(
      eventually(Milliseconds(30'000), [&] { return preemption().value("refused", 0) > 0; }));
  EXPECT_EQ(running(), 2u);
  for (const char* name : {"first", "second"}) release(name);
  EXPECT_TRUE(low_->prints("attempts 0 0")) << low_->err() << "neither was ended";
  ASSERT_TRUE(high_->prints("placed")) << high_->err();
  high_->say("end");
  EXPECT_EQ(high_->wait().code, 0);
  low_ends();

  hold("1");
  high_.emplace(start_driver({"wants_a_group", "--mobula-job-priority", "1"}));
  ASSERT_TRUE(high_->prints("placed")) << high_->err();
  EXPECT_EQ(running(), 0u);
  high_->say("end");
  EXPECT_EQ(high_->wait().code, 0);
  for (const char* name : {"first", "second"}) release(name);
  EXPECT_TRUE(low_->prints("attempts 1 1")) << low_->err();
  low_ends();
}

TEST_F(Preemption, PolicyOff_PreemptsNothing) {
  ASSERT_NO_FATAL_FAILURE(start({}, "1"));
  ASSERT_TRUE(eventually(Milliseconds(30'000), [&] {
    const auto leases = list("leases");
    return leases && leases->size() == 1 && (*leases)[0].value("state", "") == "RECALLED";
  })) << "recalled it is";
  EXPECT_EQ(task("holds")["state"], "RUNNING");
  EXPECT_EQ(preemption()["policy"], "off");
  EXPECT_EQ(preemption()["asked"], 0);
  release("holds");
  EXPECT_TRUE(low_->prints("attempt 0")) << low_->err();
  ASSERT_TRUE(comes_to("urgent", "RUNNING"));
  release("urgent");
  EXPECT_EQ(high_->wait().code, 0);
  low_ends();
}

}  // namespace
}  // namespace mobula::e2e
