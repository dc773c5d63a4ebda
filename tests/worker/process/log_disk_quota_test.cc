// The disk quota of job logs, and the order of removal.
#include "worker/process/log_disk_quota.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace mobula::internal::worker {
namespace {

class JobLogQuota : public testing::Test {
 protected:
  JobLogQuota() {
    std::string pattern = (std::filesystem::temp_directory_path() / "log-room-XXXXXX").string();
    directory = ::mkdtemp(pattern.data());
  }
  ~JobLogQuota() override { std::filesystem::remove_all(directory); }

  static JobId job(std::uint64_t number) { return JobId::of(number); }
  // Runs a job that prints `bytes` bytes and ends.
  static void run(LogDiskQuota& quota, JobId id, std::size_t bytes) {
    JobLog log = quota.open(id);
    quota.append(log, std::string(bytes, 'x'));
    quota.ended(log);
  }
  ReadJobLogReply read(JobId id) { return read_job_log(directory, {1, id, 0, 1000}); }
  std::uint64_t on_disk() const {
    std::uint64_t sum = 0;
    for (const auto& each : std::filesystem::directory_iterator(directory)) sum += each.file_size();
    return sum;
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(directory), {}));
  }

  std::string directory;
  JobLogSpaceLimits limits{
      .bytes = 100, .ended_jobs = 4, .each = {.segment_bytes = 10, .segments = 4}};
};

TEST_F(JobLogQuota, RemovesLogThatEndedFirst) {
  LogDiskQuota quota(directory, limits);
  JobLog lives = quota.open(job(9));
  quota.append(lives, std::string(30, 'l'));
  run(quota, job(2), 30);
  run(quota, job(1), 30);
  run(quota, job(3), 30);
  EXPECT_EQ(read(job(2)).bytes.size(), 0u) << "it ended first";
  EXPECT_EQ(read(job(2)).end, 30u) << "and readers learn how much there was";
  EXPECT_EQ(read(job(2)).from, 30u);
  EXPECT_EQ(read(job(1)).end, 30u);
  EXPECT_GT(read(job(1)).bytes.size(), 0u);
  EXPECT_GT(read(job(9)).bytes.size(), 0u) << "the log of a running job is spared";
  EXPECT_EQ(quota.bytes(), 90u);
  EXPECT_EQ(on_disk(), 90u);
}

TEST_F(JobLogQuota, JobRunsAgain_LogContinuesAndIsKept) {
  LogDiskQuota quota(directory, limits);
  run(quota, job(1), 40);
  JobLog again = quota.open(job(1));
  run(quota, job(2), 40);
  run(quota, job(3), 40);
  EXPECT_EQ(again.end(), 40u);
  EXPECT_EQ(read(job(1)).from, 0u);
  EXPECT_EQ(read(job(2)).from, 40u) << "which ended";
  quota.append(again, "more");
  EXPECT_EQ(again.end(), 44u);
  EXPECT_LE(on_disk(), 100u);
}

TEST_F(JobLogQuota, RunningJobs_ShareQuotaAndLoseRest) {
  LogDiskQuota quota(directory, limits);
  std::vector<JobLog> logs;
  for (std::uint64_t i = 0; i < 12; ++i) logs.push_back(quota.open(job(100 + i)));
  for (int round = 0; round < 6; ++round) {
    for (auto& log : logs) {
      quota.append(log, std::string(7, 'x'));
      ASSERT_LE(on_disk(), 100u);
    }
  }
  std::uint64_t lost = 0;
  for (const auto& log : logs) {
    lost += log.lost_bytes();
    EXPECT_EQ(log.end(), 42u) << "every byte is counted";
  }
  EXPECT_GT(lost, 0u);
  for (auto& log : logs) quota.ended(log);
  run(quota, job(1), 30);
  EXPECT_EQ(read(job(1)).end, 30u) << "space is available again";
}

TEST_F(JobLogQuota, NextAgent_FindsLogsAndLimitsThem) {
  {
    LogDiskQuota quota(directory, limits);
    for (std::uint64_t i = 1; i <= 4; ++i) run(quota, job(i), 20);
  }
  limits.bytes = 45;
  LogDiskQuota quota(directory, limits);
  EXPECT_LE(on_disk(), 45u);
  EXPECT_EQ(quota.bytes(), on_disk());
  for (std::uint64_t i = 10; i < 30; ++i) run(quota, job(i), 5);
  run(quota, job(50), 0);
  EXPECT_LE(on_disk(), 45u);
  EXPECT_LE(files(), 4u);
  EXPECT_EQ(read(job(29)).end, 5u) << "the latest are there";
}

}  // namespace
}  // namespace mobula::internal::worker
