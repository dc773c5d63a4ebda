#include "worker/process/daemon.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <sstream>
#include <vector>

#include "base/time.h"
#include "worker/process/agent_shim.h"
#include "worker/process/pool/executor_pool.h"
#include "worker/process/watch/process_tree.h"

namespace mobula::internal::worker {
namespace {

using ::testing::HasSubstr;

[[noreturn]] void wait_for_ever() {
  for (;;) ::pause();
}

void report(int pipe) {
  const pid_t self = ::getpid();
  (void)!::write(pipe, &self, sizeof self);
}

// Leaves a child, a child in its own session, and an orphan in its own session.
void leave_processes(int pipe) {
  for (const auto& [own_session, twice] :
       {std::array{false, false}, std::array{true, false}, std::array{true, true}}) {
    if (::fork() != 0) continue;
    if (own_session) ::setsid();
    if (twice && ::fork() != 0) ::_exit(0);
    report(pipe);
    wait_for_ever();
  }
}

class AgentShimTest : public ::testing::Test {
 protected:
  AgentShimTest() { EXPECT_EQ(::pipe(pipe_.data()), 0); }
  ~AgentShimTest() override {
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }

  // Forks a shim over an agent that leaves processes and then waits.
  void start(const std::function<int()>& agent_main, const SparedProcesses& spares = {}) {
    std::fflush(nullptr);
    shim_ = ::fork();
    if (shim_ == 0) ::_exit(run_under_shim(agent_main, nullptr, spares));
  }
  PidIdentity next_process() {
    pid_t pid = 0;
    EXPECT_EQ(::read(pipe_[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
    return read_stat(pid).value_or(ProcessStat{}).identity;
  }
  int shim_status() const {
    int status = 0;
    EXPECT_EQ(::waitpid(shim_, &status, 0), shim_);
    return status;
  }
  // Polls for the end of a process that is no child of the test.
  static bool ends(PidIdentity process) {
    const Fd pidfd = open_process(process);
    if (!pidfd) return true;
    pollfd ready{pidfd.get(), POLLIN, 0};
    return ::poll(&ready, 1, 30'000) == 1;
  }

  std::array<int, 2> pipe_{};
  pid_t shim_ = 0;
};

TEST_F(AgentShimTest, AgentDied_ShimKillsTree) {
  start([&] {
    report(pipe_[1]);
    leave_processes(pipe_[1]);
    wait_for_ever();
    return 0;
  });
  const PidIdentity agent = next_process();
  std::vector<PidIdentity> below;
  for (int i = 0; i < 3; ++i) below.push_back(next_process());
  ASSERT_TRUE(signal_process(agent, SIGKILL));
  EXPECT_EQ(WEXITSTATUS(shim_status()), 128 + SIGKILL);
  for (const PidIdentity process : below) EXPECT_FALSE(read_stat(process.pid)) << process.pid;
}

TEST_F(AgentShimTest, ShimSparesChosenProcesses) {
  const auto leads_session = [](pid_t pid) { return ::getsid(pid) == pid; };
  start(
      [&] {
        report(pipe_[1]);
        leave_processes(pipe_[1]);
        wait_for_ever();
        return 0;
      },
      leads_session);
  const PidIdentity agent = next_process();
  std::vector<PidIdentity> below;
  for (int i = 0; i < 3; ++i) below.push_back(next_process());
  ASSERT_TRUE(signal_process(agent, SIGKILL));
  EXPECT_EQ(WEXITSTATUS(shim_status()), 128 + SIGKILL);
  std::erase_if(below, [](const PidIdentity& each) { return !read_stat(each.pid); });
  ASSERT_EQ(below.size(), 1u) << "only the leader of a session survives";
  const PidIdentity survivor = below.front();
  EXPECT_TRUE(leads_session(survivor.pid));
  signal_process(survivor, SIGKILL);
  EXPECT_TRUE(ends(survivor));
}

// Serves a pool with one executor until it is killed. Reports the pids of itself, the executor, and
// the process that the executor started.
int agent_with_executor(int pipe) {
  auto pool = ExecutorPool::create(PoolOptions{}).value();
  std::array<int, 2> link{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link.data()) != 0) return 1;
  pool->start(
      {ProcessId::of(1), SlotId::of(1), {USER_PROGRAM, {"user"}, {}, "/", ""}, {}, Fd(link[1]), 0});
  const std::string order = "leave-processes";
  (void)!::send(link[0], order.data(), order.size(), 0);
  report(pipe);
  for (;;) {
    std::array ready{pollfd{pool->poll_fd(), POLLIN, 0}, pollfd{link[0], POLLIN, 0}};
    ::poll(ready.data(), ready.size(), -1);
    std::vector<PoolEvent> events;
    pool->on_readable(events);
    for (const PoolEvent& event : events) {
      const auto* started = std::get_if<PoolStarted>(&event);
      if (started == nullptr) return 1;
      (void)!::write(pipe, &started->identity.pid, sizeof started->identity.pid);
    }
    std::array<char, 256> packet{};
    if (::recv(link[0], packet.data(), packet.size() - 1, MSG_DONTWAIT) <= 0) continue;
    std::istringstream pids(packet.data());
    for (pid_t pid = 0; pids >> pid;) (void)!::write(pipe, &pid, sizeof pid);
  }
}

TEST_F(AgentShimTest, AgentDied_ShimKillsWholeProcessTree) {
  start([&] { return agent_with_executor(pipe_[1]); });
  const PidIdentity agent = next_process();
  std::vector<PidIdentity> below;
  for (int i = 0; i < 5; ++i) below.push_back(next_process());
  ASSERT_TRUE(signal_process(agent, SIGKILL));
  EXPECT_EQ(WEXITSTATUS(shim_status()), 128 + SIGKILL);
  for (const PidIdentity process : below) EXPECT_FALSE(read_stat(process.pid)) << process.pid;
}

TEST_F(AgentShimTest, ReturnsAgentExitCodeAndLeavesNothing) {
  start([&] {
    leave_processes(pipe_[1]);
    return 7;
  });
  EXPECT_EQ(WEXITSTATUS(shim_status()), 7);
  ::fcntl(pipe_[0], F_SETFL, O_NONBLOCK);
  for (pid_t pid = 0; ::read(pipe_[0], &pid, sizeof pid) > 0;) EXPECT_FALSE(read_stat(pid)) << pid;
}

TEST_F(AgentShimTest, ForwardsSigtermToAgent) {
  start([&] {
    sigset_t term;
    ::sigemptyset(&term);
    ::sigaddset(&term, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &term, nullptr);
    report(pipe_[1]);
    int signal = 0;
    ::sigwait(&term, &signal);
    return signal == SIGTERM ? 5 : 1;
  });
  next_process();
  ASSERT_EQ(::kill(shim_, SIGTERM), 0);
  EXPECT_EQ(WEXITSTATUS(shim_status()), 5);
}

TEST_F(AgentShimTest, ShimKilled_AgentEnds) {
  start([&] {
    report(pipe_[1]);
    wait_for_ever();
    return 0;
  });
  const PidIdentity agent = next_process();
  ASSERT_EQ(::kill(shim_, SIGKILL), 0);
  shim_status();
  EXPECT_TRUE(ends(agent));
}

class DaemonTest : public AgentShimTest {
 protected:
  DaemonTest() {
    directory_ = std::filesystem::temp_directory_path() /
                 ("mobula-daemon-test-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_);
  }
  ~DaemonTest() override { std::filesystem::remove_all(directory_); }
  std::string log() const { return (directory_ / "agent.log").string(); }
  std::filesystem::path directory_;
};

TEST_F(DaemonTest, ReturnsWhenAgentIsReady) {
  const auto daemon = start_daemon(log(), [&](Readiness& readiness) {
    report(pipe_[1]);
    readiness.ready("listening at port 1234");
    wait_for_ever();
    return 0;
  });
  ASSERT_TRUE(daemon.ok()) << daemon.error().text;
  EXPECT_EQ(daemon->message, "listening at port 1234");
  const PidIdentity agent = next_process();
  const auto shim = read_stat(daemon->shim);
  ASSERT_TRUE(shim.has_value());
  EXPECT_NE(shim->session, ::getsid(0));
  ASSERT_EQ(::kill(daemon->shim, SIGTERM), 0);
  EXPECT_TRUE(ends(agent));
  EXPECT_TRUE(ends(shim->identity));
}

TEST_F(DaemonTest, FailsWithErrorOfAgent) {
  const auto daemon = start_daemon(log(), [](Readiness& readiness) {
    readiness.failed("port 1234 is in use");
    return 1;
  });
  ASSERT_FALSE(daemon.ok());
  EXPECT_EQ(daemon.error().text, "port 1234 is in use");
}

TEST_F(DaemonTest, CrashBeforeReady_ReportsEndOfLog) {
  const auto daemon = start_daemon(log(), [](Readiness&) -> int {
    std::fprintf(stderr, "the disk is on fire\n");
    ::raise(SIGKILL);
    return 0;
  });
  ASSERT_FALSE(daemon.ok());
  EXPECT_THAT(daemon.error().text, HasSubstr("the disk is on fire"));
}

TEST_F(DaemonTest, NamesLogThatCannotBeOpened) {
  const auto daemon = start_daemon("/no/such/directory/log", [](Readiness&) { return 0; });
  ASSERT_FALSE(daemon.ok());
  EXPECT_THAT(daemon.error().text, HasSubstr("open the log /no/such/directory/log: No such file"));
}

}  // namespace
}  // namespace mobula::internal::worker
