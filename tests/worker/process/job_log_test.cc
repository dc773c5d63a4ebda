// Output of submitted jobs on the disk of a node.
#include "worker/process/job_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace mobula::internal::worker {
namespace {

class JobLogs : public testing::Test {
 protected:
  JobLogs() {
    std::string pattern = (std::filesystem::temp_directory_path() / "job-log-XXXXXX").string();
    directory = ::mkdtemp(pattern.data());
  }
  ~JobLogs() override { std::filesystem::remove_all(directory); }

  ReadJobLogReply read(std::int64_t from, std::uint64_t limit = 1000) {
    return read_job_log(directory, {9, job, from, limit});
  }
  static std::string text(const ReadJobLogReply& part) {
    return {reinterpret_cast<const char*>(part.bytes.bytes().data()), part.bytes.size()};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(directory), {}));
  }

  std::string directory;
  JobId job = JobId::of(7);
  JobLogLimits small{.segment_bytes = 10, .segments = 3};
};

TEST_F(JobLogs, ReadsBytesByOffset) {
  JobLog log = JobLog::open(directory, job);
  EXPECT_EQ(text(read(0)), "");
  log.append("hello ");
  log.append("world");
  const ReadJobLogReply all = read(0);
  EXPECT_EQ(text(all), "hello world");
  EXPECT_EQ(all.request, 9u);
  EXPECT_EQ(all.end, 11u);
  EXPECT_EQ(text(read(6)), "world");
  EXPECT_EQ(text(read(0, 5)), "hello");
  EXPECT_EQ(text(read(-5)), "world");
  EXPECT_EQ(text(read(-500)), "hello world");
  EXPECT_EQ(text(read(99)), "");
  EXPECT_EQ(read(99).from, 11u);
}

TEST_F(JobLogs, LaterAttempt_ContinuesLog) {
  JobLog::open(directory, job, small).append("0123456789abc");
  JobLog log = JobLog::open(directory, job, small);
  EXPECT_EQ(log.end(), 13u);
  log.append("def");
  EXPECT_EQ(text(read(10)), "abcdef");
}

TEST_F(JobLogs, KeepsLatestPartOfEndlessOutput) {
  JobLog log = JobLog::open(directory, job, small);
  for (int i = 0; i < 1000; ++i) log.append("0123456");
  EXPECT_LE(files(), 3u);
  const ReadJobLogReply oldest = read(0);
  EXPECT_EQ(oldest.end, 7000u);
  EXPECT_GE(oldest.from, 6970u);
  EXPECT_EQ(oldest.from % 10, 0u);
  std::string kept;
  for (auto at = oldest.from; at < oldest.end; at += 10)
    kept += text(read(static_cast<std::int64_t>(at)));
  std::string printed;
  for (int i = 0; i < 1000; ++i) printed += "0123456";
  EXPECT_EQ(kept, printed.substr(oldest.from));
  EXPECT_EQ(text(read(-7)).back(), '6');
}

TEST_F(JobLogs, LostOutput_IsVisibleGap) {
  JobLog log = JobLog::open(directory, job, small);
  log.append("abc");
  for (int i = 0; i < 100; ++i) log.lose(1);
  EXPECT_EQ(log.end(), 103u);
  EXPECT_EQ(log.kept_bytes(), 3u);
  EXPECT_LE(files(), 2u) << "lost bytes do not evict kept bytes";
  EXPECT_EQ(text(read(0)), "abc");
  EXPECT_EQ(read(3).from, 103u);
  EXPECT_EQ(read(3).end, 103u);
  log.append("def");
  EXPECT_EQ(read(3).from, 103u);
  EXPECT_EQ(text(read(3)), "def");
  EXPECT_EQ(log.lost_bytes(), 100u);
  JobLog later = JobLog::open(directory, job, small);
  EXPECT_EQ(later.end(), 106u);
  EXPECT_EQ(later.kept_bytes(), 6u);
}

TEST_F(JobLogs, SeparatesJobsAndIgnoresForeignFiles) {
  JobLog::open(directory, job).append("mine");
  JobLog::open(directory, JobId::of(8)).append("another's");
  std::ofstream(directory + "/job-" + job.hex() + ".x.log") << "no offset";
  EXPECT_EQ(text(read(0)), "mine");
}

TEST_F(JobLogs, DirectoryMissing_LosesOutputOnly) {
  JobLog log = JobLog::open(directory + "/none", job);
  log.append("lost");
  EXPECT_EQ(log.lost_bytes(), 4u);
  EXPECT_EQ(log.end(), 0u);
}

}  // namespace
}  // namespace mobula::internal::worker
