#include "client/executor/fork_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <latch>
#include <thread>

#include "client/executor/fork_check.h"

namespace mobula::internal::executor {
namespace {

using ::testing::HasSubstr;

OwnProcess harmless() { return OwnProcess{{"main"}, {}, {}, 1u << 20}; }

std::string refusal_of(const OwnProcess& seen) {
  const auto judged = judge_fork(seen, ForkServerLimits{});
  return judged ? "" : judged.error().text;
}

TEST(ForkServerCheck, HarmlessProcess_MayFork) { EXPECT_EQ(refusal_of(harmless()), ""); }

TEST(ForkServerCheck, NamesSecondThread) {
  OwnProcess seen = harmless();
  seen.threads.push_back("blas-pool");
  EXPECT_THAT(refusal_of(seen), HasSubstr("2 threads run before init (main, blas-pool)"));
}

TEST(ForkServerCheck, NamesCudaLibrary) {
  OwnProcess seen = harmless();
  seen.accelerator_libraries = {"libcuda.so.550.54"};
  EXPECT_THAT(refusal_of(seen), HasSubstr("libcuda.so.550.54 is loaded before init"));
}

TEST(ForkServerCheck, NamesOpenDevice) {
  OwnProcess seen = harmless();
  seen.accelerator_devices = {"/dev/nvidia0"};
  EXPECT_THAT(refusal_of(seen), HasSubstr("/dev/nvidia0 is open before init"));
}

TEST(ForkServerCheck, RejectsLargeMemoryWithBothSizes) {
  OwnProcess seen = harmless();
  seen.touched_bytes = 300u << 20;
  EXPECT_THAT(refusal_of(seen),
              HasSubstr("300 MiB of memory are touched before init, more than the 256 MiB"));
}

TEST(ForkServerCheck, InspectsThreadsAndMemoryOfThisProcess) {
  std::latch end(1);
  std::thread other([&] { end.wait(); });
  const OwnProcess seen = inspect_own_process();
  end.count_down();
  other.join();
  EXPECT_GE(seen.threads.size(), 2u);
  EXPECT_GT(seen.touched_bytes, 0u);
  EXPECT_TRUE(seen.accelerator_libraries.empty());
}

TEST(StartedAs, ReadsRoleFromEnvironment) {
  EXPECT_EQ(started_as(), StartedAs::driver);
  ::setenv("MOBULA_FORK_SERVER_FD", "17", 1);
  EXPECT_EQ(started_as(), StartedAs::fork_server);
  ::setenv("MOBULA_FORK_SERVER_FD", "nonsense", 1);
  EXPECT_EQ(started_as(), StartedAs::driver);
  ::unsetenv("MOBULA_FORK_SERVER_FD");
  ::setenv("MOBULA_EXECUTOR_FD", "17", 1);
  EXPECT_EQ(started_as(), StartedAs::executor);
  ::unsetenv("MOBULA_EXECUTOR_FD");
}

TEST(StartedAs, NoAgent_AdoptionFails) {
  const auto self = adopt_executor_from_environment();
  ASSERT_FALSE(self.ok());
  EXPECT_EQ(self.error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace mobula::internal::executor
