// The logs that an agent stores and returns.
#include "worker/process/slot_logs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace mobula::internal::worker {
namespace {

namespace fs = std::filesystem;

class SlotLogTest : public testing::Test {
 protected:
  SlotLogTest() {
    std::string pattern = (fs::temp_directory_path() / "slot-logs-XXXXXX").string();
    directory = ::mkdtemp(pattern.data());
  }
  ~SlotLogTest() override { fs::remove_all(directory); }

  static std::string text(const ReadLogReply& part) {
    return {reinterpret_cast<const char*>(part.bytes.bytes().data()), part.bytes.size()};
  }
  static ReadLogRequest all_of(const std::string& log) { return {5, log, 0, 0, 1000}; }
  static SlotId slot(unsigned number) { return SlotId::of(number); }

  std::string directory;
  JobId job = JobId::of(7);
};

TEST_F(SlotLogTest, ReadsLogByNameDuringAndAfterWriting) {
  SlotLogs logs(directory);
  logs.open(slot(1), job)->append("one\n");
  ReadLogReply part = logs.read(all_of(log_of_slot(slot(1))));
  EXPECT_EQ(text(part), "one\n");
  EXPECT_EQ(part.request, 5u);
  EXPECT_TRUE(part.open);
  logs.open(slot(1), job)->append("two\n");
  part = logs.read({6, log_of_slot(slot(1)), part.next_file, part.next_from, 1000});
  EXPECT_EQ(text(part), "two\n");
  logs.close(slot(1));
  EXPECT_FALSE(logs.read(all_of(log_of_slot(slot(1)))).open);
  const SlotLogs after(directory);  // the logs of the next agent
  EXPECT_EQ(text(after.read(all_of(log_of_slot(slot(1))))), "one\ntwo\n");
}

TEST_F(SlotLogTest, UnknownLogNames_FindNothing) {
  std::ofstream(directory + "/secret.log") << "secret";
  std::ofstream(directory + "/agent.log") << "of the agent";
  const SlotLogs logs(directory);
  for (const char* word :
       {"secret", "../secret", "slot-00000009", "", ".", "agent.log", "/etc/passwd"}) {
    const ReadLogReply part = logs.read(all_of(word));
    EXPECT_FALSE(part.fault.empty()) << word;
    EXPECT_TRUE(part.bytes.empty()) << word;
  }
  EXPECT_EQ(text(logs.read(all_of(log_of_agent))), "of the agent");
}

TEST_F(SlotLogTest, ListsLogsLatestFirst) {
  std::ofstream(directory + "/agent.log") << "of the agent";
  SlotLogs logs(directory);
  logs.open(slot(1), job)->append("of seven\n");
  logs.open(slot(2), JobId::of(8))->append("of eight\n");
  logs.close(slot(2));
  EXPECT_EQ(logs.list({3, {}, 100}).logs.size(), 3u);
  const LogsReply of_job = logs.list({3, job, 100});
  ASSERT_EQ(of_job.logs.size(), 1u);
  EXPECT_EQ(of_job.logs[0].log, log_of_slot(slot(1)));
  EXPECT_EQ(of_job.logs[0].size_bytes, 9u);
  EXPECT_TRUE(of_job.logs[0].open);
  EXPECT_EQ(logs.list({3, {}, 1}).left_out, 2u);
  EXPECT_EQ(SlotLogs(directory).list({3, JobId::of(8), 100}).logs.size(), 1u)
      << "the file name contains the job";
}

TEST_F(SlotLogTest, RemovesOldestEndedLogsAndKeepsOpenOnes) {
  const SlotLogLimits limits{.bytes = 25, .ended = 3};
  SlotLogs logs(directory, limits);
  logs.open(slot(9), job)->append(std::string(100, 'x'));
  for (unsigned i = 1; i <= 4; ++i) {
    logs.open(slot(i), job)->append("1234567890");
    logs.close(slot(i));
  }
  EXPECT_FALSE(logs.read(all_of(log_of_slot(slot(1)))).fault.empty());
  EXPECT_FALSE(logs.read(all_of(log_of_slot(slot(2)))).fault.empty())
      << "30 bytes are more than 25";
  EXPECT_EQ(text(logs.read(all_of(log_of_slot(slot(4))))), "1234567890");
  EXPECT_EQ(logs.read(all_of(log_of_slot(slot(9)))).bytes.size(), 100u);
  for (unsigned i = 11; i <= 20; ++i) {
    logs.open(slot(i), job);
    logs.close(slot(i));
  }
  EXPECT_EQ(logs.list({3, {}, 100}).logs.size(), 4u) << "three that have ended, and the open one";
  EXPECT_EQ(static_cast<std::size_t>(std::distance(fs::directory_iterator(directory), {})), 4u);
}

}  // namespace
}  // namespace mobula::internal::worker
