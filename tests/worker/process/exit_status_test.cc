#include "worker/exit_status.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <optional>
#include <utility>

#include "base/fd.h"

namespace mobula::internal::worker {
namespace {

// A child process that runs `body` and stays a zombie until it is reaped.
class ExitStatus : public ::testing::Test {
 protected:
  ~ExitStatus() override {
    if (child_ == 0) return;
    ::kill(child_, SIGKILL);
    reap();
  }
  void start(const std::function<void()>& body) {
    child_ = ::fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      body();
      ::_exit(0);
    }
    pidfd_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, child_, 0U)));
    ASSERT_TRUE(pidfd_);
  }
  void await_end() {
    pollfd ended{pidfd_.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&ended, 1, 10'000), 1);
  }
  void reap() {
    int status = 0;
    ::waitpid(child_, &status, 0);
    reaped_ = std::exchange(child_, 0);
  }
  std::optional<EndCause> status() const {
    return exit_status_of(child_ == 0 ? reaped_ : child_, pidfd_.get());
  }

  pid_t child_ = 0;
  pid_t reaped_ = 0;
  Fd pidfd_;
};

TEST_F(ExitStatus, ReadsCodeOfZombie) {
  for (const int code : {0, 3, 255}) {
    start([code] { ::_exit(code); });
    await_end();
    const auto cause = status();
    ASSERT_TRUE(cause);
    EXPECT_EQ(cause->kind, EndKind::exited);
    EXPECT_EQ(cause->exit_code, code);
    EXPECT_EQ(cause->pid, child_);
    reap();
  }
}

TEST_F(ExitStatus, ReadsSignalOfZombie) {
  for (const int signal : {SIGKILL, SIGTERM}) {
    start([] { ::pause(); });
    ::kill(child_, signal);
    await_end();
    const auto cause = status();
    ASSERT_TRUE(cause);
    EXPECT_EQ(cause->kind, EndKind::signalled);
    EXPECT_EQ(cause->signal, signal);
    reap();
  }
}

TEST_F(ExitStatus, ProcessRuns_ReturnsNothing) {
  start([] { ::pause(); });
  EXPECT_FALSE(status());
}

// Newer kernels keep the status with the pidfd; older ones have lost it.
TEST_F(ExitStatus, ProcessReaped_NeverGuesses) {
  start([] { ::_exit(7); });
  await_end();
  reap();
  if (const auto cause = status()) {
    EXPECT_EQ(cause->kind, EndKind::exited);
    EXPECT_EQ(cause->exit_code, 7);
  }
}

}  // namespace
}  // namespace mobula::internal::worker
