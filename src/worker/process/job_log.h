// What a submitted job has printed on this node: its bytes as they came, in segments that are named by the
// offset of their first byte, JOB.OFFSET.log. Only the latest are kept, so a job that prints for ever takes
// a bounded part of the disk. Offsets count all that was printed, also by earlier attempts and agents.
// Reading needs no writer. A disk that refuses costs output, never the agent; what is lost so counts as printed, so
// that readers find the gap. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"
#include "protocol/job_news.h"

namespace mobula::internal::worker {

struct JobLogLimits {
  std::uint64_t segment_bytes = 16u << 20;
  std::size_t segments = 4;
};

class JobLog {
 public:
  // Goes on where an earlier attempt has ended.
  static JobLog open(std::string folder, JobId job, JobLogLimits limits = {});

  void append(std::string_view bytes);
  // No more than so many segments from here on, and no more than the limits say.
  void keep(std::size_t segments);
  // What cannot be kept is counted.
  void lose(std::uint64_t bytes);
  JobId job() const { return job_; }
  std::uint64_t end() const { return end_; }
  std::uint64_t kept_bytes() const { return older_bytes_ + (end_ - begin_); }
  std::uint64_t lost_bytes() const { return lost_bytes_; }

 private:
  JobLog(std::string folder, JobId job, JobLogLimits limits)
      : folder_(std::move(folder)), job_(job), limits_(limits) {}
  bool open_segment();
  void drop_oldest();
  bool skip_gap();

  std::string folder_;
  JobId job_;
  JobLogLimits limits_;
  std::size_t segments_ = limits_.segments;
  std::uint64_t older_bytes_ = 0;  // in the segments before the current one
  std::uint64_t gap_ = 0;    // was lost since, and has no place yet
  std::uint64_t begin_ = 0;  // of the current segment
  std::uint64_t end_ = 0;
  std::uint64_t lost_bytes_ = 0;
  Fd file_;
};

// Removes a log. With `mark` an empty file stays, by which readers learn how much there was.
void remove_job_log(const std::string& folder, JobId job, bool mark);

// `limit` bytes at most, of one segment. What was dropped is skipped; where nothing was printed there is
// nothing.
JobLogPart read_job_log(const std::string& folder, const ReadJobLog& question);

}  // namespace mobula::internal::worker
