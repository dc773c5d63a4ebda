// How much of a node's disk the logs of all its jobs take together, and which go first: whole logs of jobs
// that have ended, those that ended longest ago first. Of a log that has gone, an empty file stays that says
// how much there was. Jobs that run share what there is: each keeps at least its latest segment, and where
// even those are too much, what is printed is lost and counted. Touches the disk; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "worker/process/job_log.h"

namespace mobula::internal::worker {

struct JobLogRoomLimits {
  std::uint64_t bytes = std::uint64_t{1} << 30;
  std::size_t ended_jobs = 2'000;  // that leave a file at all
  JobLogLimits each{};
};

class JobLogRoom {
 public:
  // Jobs whose logs are there already have ended, in the order of their files' times.
  explicit JobLogRoom(std::string folder, JobLogRoomLimits limits = {});

  // A job that runs, perhaps once more.
  JobLog open(JobId job);
  // Appends, as far as there is room for it, and makes room.
  void append(JobLog& log, std::string_view bytes);
  void ended(const JobLog& log);

  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Row {
    std::uint64_t bytes = 0;
    int running = 0;  // attempts that are not over yet
  };

  std::size_t segments_each() const;
  void count(JobId job, std::uint64_t bytes);
  void make_room(std::uint64_t wanted);
  void remove_oldest();

  const std::string folder_;
  const JobLogRoomLimits limits_;
  std::map<JobId, Row> rows_;
  std::deque<JobId> ended_;  // with bytes, the first of them first
  std::deque<JobId> empty_;  // ended, and their logs have gone
  std::size_t running_ = 0;  // jobs
  std::uint64_t bytes_ = 0;
};

}  // namespace mobula::internal::worker
