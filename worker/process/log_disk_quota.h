// The disk quota of the logs of all jobs on a node. Over the quota, whole logs of ended jobs are
// removed, the earliest end first; an empty file with the total size remains. Running jobs share
// the quota: each keeps at least its latest segment, and output beyond that is lost and counted.
// Thread: owner. Functions block on the disk. Units: bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "worker/process/job_log.h"

namespace mobula::internal::worker {

struct JobLogSpaceLimits {
  std::uint64_t bytes = std::uint64_t{1} << 30;
  std::size_t ended_jobs = 2'000;  // maximum number of ended jobs with a file
  JobLogLimits each{};
};

class LogDiskQuota {
 public:
  // Jobs with existing logs have ended, in the order of the times of their files.
  explicit LogDiskQuota(std::string directory, JobLogSpaceLimits limits = {});

  // Opens the log of a running job, also of a repeated attempt.
  JobLog open(JobId job);
  // Appends as much as the quota permits, after removing older logs.
  void append(JobLog& log, std::string_view bytes);
  void ended(const JobLog& log);

  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Row {
    std::uint64_t bytes = 0;
    int running = 0;  // attempts in progress
  };

  std::size_t segments_each() const;
  void count(JobId job, std::uint64_t bytes);
  void free_space_for(std::uint64_t wanted);
  void remove_oldest();

  const std::string directory_;
  const JobLogSpaceLimits limits_;
  std::map<JobId, Row> rows_;
  std::deque<JobId> ended_;  // jobs with bytes, in order of their end
  std::deque<JobId> empty_;  // ended jobs whose logs were removed
  std::size_t running_ = 0;  // number of running jobs
  std::uint64_t bytes_ = 0;
};

}  // namespace mobula::internal::worker
