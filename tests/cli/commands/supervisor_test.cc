#include "cli/commands/start/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/fd.h"

namespace mobula::internal::cli {
namespace {

// Simulates the agent with a function of this program that returns prepared replies.
class SupervisorTest : public ::testing::Test {
 protected:
  SupervisorTest() {
    ::pthread_sigmask(SIG_SETMASK, nullptr, &before_);
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    go_read_ = Fd(ends[0]);
    go_write_ = Fd(ends[1]);
    programs_.under_shim = [](const std::function<int()>& body) { return body(); };
    plan_.recorded = false;
    plan_.agent.emplace();
    plan_.agent->head_address = "head:1";
    plan_.agent->log_file = "/logs/agent.log";
  }
  ~SupervisorTest() override { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  int run() {
    return supervise(programs_, plan_,
                     {[this](const std::string& message) { ready_ = message; },
                      [this](const std::string& why) { failed_ = why; },
                      [this](const std::string& why) {
                        waiting_.push_back(why);
                        EXPECT_EQ(::write(go_write_.get(), "x", 1), 1);
                      }});
  }
  void wait_for_go() const {
    char byte = 0;
    (void)!::read(go_read_.get(), &byte, 1);
  }

  Programs programs_;
  SupervisorPlan plan_;
  Fd go_read_, go_write_;
  std::vector<std::string> waiting_;
  std::string ready_, failed_;
  sigset_t before_{};
};

TEST_F(SupervisorTest, ForwardsWaitReasonsUntilAgentIsReady) {
  programs_.agent = [this](const AgentPlan&, const std::function<void(const AgentFile&)>& ready,
                           const std::function<void(const std::string&)>& waiting) {
    waiting("nobody listens");
    wait_for_go();
    waiting("no handshake");
    wait_for_go();
    ready({});
    return 0;
  };
  EXPECT_EQ(run(), 0) << failed_;
  EXPECT_THAT(waiting_, ::testing::ElementsAre("nobody listens", "no handshake"));
  EXPECT_THAT(ready_, ::testing::HasSubstr("head:1"));
}

TEST_F(SupervisorTest, SilentAgent_NamesItsLog) {
  plan_.unsaid = Duration(0);
  programs_.agent = [this](const AgentPlan&, const std::function<void(const AgentFile&)>& ready,
                           const std::function<void(const std::string&)>&) {
    wait_for_go();
    ready({});
    return 0;
  };
  EXPECT_EQ(run(), 0) << failed_;
  EXPECT_THAT(waiting_, ::testing::ElementsAre("agent: no report yet; its log is /logs/agent.log"));
}

// Counts the starts of the test's head: each writes one byte to the pipe.
int starts(const Fd& pipe) {
  int count = 0;
  EXPECT_EQ(::ioctl(pipe.get(), FIONREAD, &count), 0);
  return count;
}

TEST_F(SupervisorTest, RestartsCrashedHead) {
  plan_.agent.reset();
  plan_.head.emplace();
  plan_.restart_backoff_initial = std::chrono::milliseconds(1);
  programs_.head = [this](const HeadPlan&, const auto& listening, const auto& ready) {
    EXPECT_EQ(::write(go_write_.get(), "x", 1), 1);
    listening(HeadFile{});
    ready(HeadFile{}, std::vector<std::string>{});
    if (starts(go_read_) < 3) {
      const rlimit no_core{0, 0};
      ::setrlimit(RLIMIT_CORE, &no_core);
      ::signal(SIGABRT, SIG_DFL);
      std::abort();
    }
    return 0;
  };
  EXPECT_EQ(run(), 0) << failed_;
  EXPECT_EQ(starts(go_read_), 3);
}

TEST_F(SupervisorTest, HeadExitsWithError_IsNotRestarted) {
  plan_.agent.reset();
  plan_.head.emplace();
  programs_.head = [this](const HeadPlan&, const auto& listening, const auto& ready) {
    EXPECT_EQ(::write(go_write_.get(), "x", 1), 1);
    listening(HeadFile{});
    ready(HeadFile{}, std::vector<std::string>{});
    return 3;
  };
  EXPECT_EQ(run(), 3) << failed_;
  EXPECT_EQ(starts(go_read_), 1);
}

}  // namespace
}  // namespace mobula::internal::cli
