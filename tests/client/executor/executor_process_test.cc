// A complete executor process, with the agent's end of its link in the test.
#include "client/executor/executor_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "protocol/codec/messages.h"
#include "transport/bus/curve.h"
#include "transport/local/local_frame.h"
#include "transport/local/local_link.h"

namespace mobula::internal::executor {
namespace {

class ExecutorProcessTest : public testing::Test {
 protected:
  ExecutorProcessTest() {
    std::string name = std::filesystem::temp_directory_path() / "mobula-executor-XXXXXX";
    directory_ = ::mkdtemp(name.data());
  }
  ~ExecutorProcessTest() override { std::filesystem::remove_all(directory_); }

  AssignExecutor assignment() const {
    AssignExecutor assign;
    assign.process = ProcessId::of(7);
    assign.node = NodeId::of(1);
    assign.slot = SlotId::of(3);
    assign.demand_class.id = ClassId::of(5);
    assign.demand_class.job = JobId::of(1);
    assign.demand_class.program = ProgramId::of(1);
    assign.lessee = ProcessId::of(9);
    return assign;
  }
  PrepareExecutor preparation() const {
    auto keys = CurveKeys::generate();
    EXPECT_TRUE(keys.ok());
    return {keys->public_key, keys->secret_key, directory_ + "/7.ipc", {}};
  }
  static void say(const Fd& link, AgentToProcess message) {
    EXPECT_TRUE(send_frame(link, encode(message), {}, monotonic_now() + 10s).ok());
  }

  std::string directory_;
};

TEST_F(ExecutorProcessTest, ReadsMessagesSentBeforeReady) {
  auto pair = make_local_pair();
  ASSERT_TRUE(pair.ok());
  // All messages are sent before the executor exists.
  say(pair->first, preparation());
  say(pair->first, assignment());
  say(pair->first, EndExecutor{false, "no reader needs it any more"});
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pair->first.reset();
    run_executor(ForkedExecutor{std::move(pair->second), ProcessId::of(7), SlotId::of(3), 1});
  }
  const Fd exited(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  ASSERT_TRUE(exited);
  pollfd ready{exited.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 20'000), 1)
      << "the executor waits for calls after its driver is gone";
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace mobula::internal::executor
