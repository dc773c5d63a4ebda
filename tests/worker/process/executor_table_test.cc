#include "worker/process/watch/executor_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace mobula::internal::worker {
namespace {

class ExecutorTableTest : public ::testing::Test {
 protected:
  ExecutorTableTest() {
    directory_ = std::filesystem::temp_directory_path() /
                 ("mobula-table-test-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_);
  }
  ~ExecutorTableTest() override {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    std::filesystem::remove_all(directory_);
  }
  std::string path() const { return (directory_ / "processes").string(); }
  PidIdentity start_process() {
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) ::pause();
    }
    children_.push_back(child);
    return read_stat(child)->identity;
  }

  std::filesystem::path directory_;
  std::vector<pid_t> children_;
};

TEST_F(ExecutorTableTest, NextAgent_KillsLeftovers) {
  const PidIdentity left = start_process();
  const PidIdentity ended = start_process();
  {
    auto table = ExecutorTable::create(path());
    ASSERT_TRUE(table.ok());
    ASSERT_TRUE(table->add(left, SlotId::of(1)).ok());
    ASSERT_TRUE(table->add(ended, SlotId::of(2)).ok());
    ASSERT_TRUE(table->remove(ended).ok());
  }
  const auto killed = reap_leftovers(path(), 20s);
  ASSERT_TRUE(killed.ok()) << killed.error().text;
  EXPECT_EQ(*killed, 1u);
  EXPECT_FALSE(is_running(left));
  EXPECT_TRUE(is_running(ended));
}

TEST_F(ExecutorTableTest, ReusedPid_IsSpared) {
  const PidIdentity innocent = start_process();
  auto table = ExecutorTable::create(path());
  ASSERT_TRUE(table.ok());
  ASSERT_TRUE(table->add({innocent.pid, innocent.start_time - 1}, SlotId::of(1)).ok());
  EXPECT_EQ(reap_leftovers(path(), 20s).value(), 0u);
  EXPECT_TRUE(is_running(innocent));
  EXPECT_FALSE(signal_process({innocent.pid, innocent.start_time - 1}, SIGKILL));
}

TEST_F(ExecutorTableTest, TableOfAnotherBoot_KillsNothing) {
  const PidIdentity innocent = start_process();
  std::ofstream(path()) << "mobula-processes 1 another-boot\n+ " << innocent.pid << " "
                        << innocent.start_time << " " << SlotId::of(1).hex() << "\n";
  EXPECT_EQ(reap_leftovers(path(), 20s).value(), 0u);
  EXPECT_TRUE(is_running(innocent));
}

TEST_F(ExecutorTableTest, TableMissing_KillsNothing) {
  EXPECT_EQ(reap_leftovers(path(), 20s).value(), 0u);
}

TEST_F(ExecutorTableTest, LimitsSizeOfHistory) {
  auto table = ExecutorTable::create(path());
  ASSERT_TRUE(table.ok());
  for (std::uint64_t i = 0; i < 5000; ++i) {
    ASSERT_TRUE(table->add({1'000'000'000, i}, SlotId::of(i)).ok());
    ASSERT_TRUE(table->remove({1'000'000'000, i}).ok());
  }
  EXPECT_LT(std::filesystem::file_size(path()), 40'000u);
}

TEST_F(ExecutorTableTest, NamesUnkillableProcessAtTimeout) {
  const PidIdentity left = start_process();
  auto table = ExecutorTable::create(path());
  ASSERT_TRUE(table->add(left, SlotId::of(1)).ok());
  const auto killed = reap_leftovers(path(), Duration(0));
  ASSERT_FALSE(killed.ok());
  EXPECT_EQ(killed.error().code, ErrorCode::timed_out);
  EXPECT_THAT(killed.error().text, ::testing::HasSubstr(std::to_string(left.pid)));
}

}  // namespace
}  // namespace mobula::internal::worker
