// The output of a submitted job on this node: its bytes, in segments named by the offset of their
// first byte, JOB.OFFSET.log. Only the latest segments are kept, so the disk use of a job is
// bounded. Offsets count all output, also of earlier attempts and agents. Reading works without a
// writer.
// Thread: owner. Units: bytes. Errors: a failed write loses output; lost bytes count as output, so
// that readers find the gap.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"
#include "protocol/messages/job_messages.h"

namespace mobula::internal::worker {

struct JobLogLimits {
  std::uint64_t segment_bytes = 16u << 20;
  std::size_t segments = 4;
};

class JobLog {
 public:
  // Continues after the end of an earlier attempt.
  static JobLog open(std::string directory, JobId job, JobLogLimits limits = {});

  void append(std::string_view bytes);
  // Limits the segments from now on; the limits of `open` still apply.
  void keep(std::size_t segments);
  // Counts bytes that cannot be kept.
  void lose(std::uint64_t bytes);
  JobId job() const { return job_; }
  std::uint64_t end() const { return end_; }
  std::uint64_t kept_bytes() const { return older_bytes_ + (end_ - begin_); }
  std::uint64_t lost_bytes() const { return lost_bytes_; }

 private:
  JobLog(std::string directory, JobId job, JobLogLimits limits)
      : directory_(std::move(directory)), job_(job), limits_(limits) {}
  bool open_segment();
  void drop_oldest();
  bool skip_gap();

  std::string directory_;
  JobId job_;
  JobLogLimits limits_;
  std::size_t segments_ = limits_.segments;
  std::uint64_t older_bytes_ = 0;  // in the segments before the current one
  std::uint64_t gap_ = 0;          // lost bytes that have no offset yet
  std::uint64_t begin_ = 0;        // offset of the current segment
  std::uint64_t end_ = 0;
  std::uint64_t lost_bytes_ = 0;
  Fd file_;
};

// Removes a log. With `mark`, an empty file remains, whose name gives readers the total size.
void remove_job_log(const std::string& directory, JobId job, bool mark);

// Reads at most `limit` bytes of one segment. Dropped bytes are skipped. Empty if no output exists.
ReadJobLogReply read_job_log(const std::string& directory, const ReadJobLogRequest& question);

}  // namespace mobula::internal::worker
