#include "worker/process/watch/process_tree.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>

#include "base/time.h"

namespace mobula::internal::worker {
namespace {

// A child of this test, killed by the destructor.
class Child {
 public:
  template <class Main>
  explicit Child(Main main) : pid_(::fork()) {
    if (pid_ == 0) {
      main();
      for (;;) ::pause();
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }
  pid_t pid() const { return pid_; }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_;
};

template <class Condition>
bool eventually(Condition condition) {
  const Time deadline = monotonic_now() + 30s;
  while (!condition()) {
    if (monotonic_now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

bool main_thread_is_zombie(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  return text.find(") Z ") != std::string::npos;
}

TEST(ProcessTree, DescribesOwnProcess) {
  const auto stat = read_stat(::getpid());
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->parent, ::getppid());
  EXPECT_EQ(stat->session, ::getsid(0));
  EXPECT_GT(stat->identity.start_time, 0u);
  EXPECT_TRUE(is_running(stat->identity));
}

TEST(ProcessTree, ParsesNameWithSpacesAndParentheses) {
  const Child child([] { ::pthread_setname_np(::pthread_self(), ") Z 1 2 (3"); });
  const pid_t pid = child.pid();
  EXPECT_TRUE(eventually([&] {
    std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
    std::string name;
    std::getline(file, name);
    return name == ") Z 1 2 (3";
  }));
  const auto stat = read_stat(pid);
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->parent, ::getpid());
  EXPECT_FALSE(stat->ended);
}

TEST(ProcessTree, ProcessRunsWithoutMainThread) {
  const Child child([] {
    std::thread([] {
      for (;;) ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);  // ends this thread only, without unwinding
  });
  ASSERT_TRUE(eventually([&] { return main_thread_is_zombie(child.pid()); }));
  const auto stat = read_stat(child.pid());
  ASSERT_TRUE(stat.has_value());
  EXPECT_FALSE(stat->ended);
  EXPECT_TRUE(is_running(stat->identity));
}

TEST(ProcessTree, Zombie_HasEndedAndIsStillChild) {
  Child child([] { ::_exit(0); });
  EXPECT_TRUE(eventually([&] { return read_stat(child.pid())->ended; }));
  const auto children = children_of(::getpid());
  EXPECT_NE(std::find(children.begin(), children.end(), child.pid()), children.end());
  EXPECT_TRUE(descendants_of(::getpid()).empty());
}

TEST(ProcessTree, SignalsOnlyTheIdentifiedProcess) {
  Child child([] {});
  const PidIdentity identity = read_stat(child.pid())->identity;
  EXPECT_FALSE(signal_process({identity.pid, identity.start_time + 1}, SIGKILL));
  EXPECT_TRUE(is_running(identity));
  EXPECT_TRUE(signal_process(identity, SIGKILL));
  child.end();
  EXPECT_FALSE(signal_process(identity, SIGKILL));
  EXPECT_FALSE(is_running(identity));
}

}  // namespace
}  // namespace mobula::internal::worker
