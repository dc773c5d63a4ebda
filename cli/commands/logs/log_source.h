// One log that is read in chunks: a file of this machine, or a log that an agent or the head reads.
// Stores only the read position.
// Thread: main.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/logging/rotated_log.h"
#include "base/result.h"
#include "cli/head_query.h"

namespace mobula::internal::cli {

struct LogChunk {
  std::string bytes;
  std::uint64_t left = 0;        // bytes after this chunk
  std::uint64_t lost_bytes = 0;  // bytes that are no longer stored; 1 if the number is unknown
  bool open = true;              // the log may grow
};

class LogSource {
 public:
  // A log of this machine: possible names of its files, the newest first.
  static LogSource of_files(std::vector<std::string> paths);
  static LogSource of_head(HeadQuery& query);
  static LogSource of_node(HeadQuery& query, std::string node, std::string log);
  // The output of a submitted job.
  static LogSource of_job(HeadQuery& query, std::string job);

  // Begins `bytes` before the end. Call before the first chunk; not for jobs.
  void begin_near_end(std::uint64_t bytes) { position_.from = -static_cast<std::int64_t>(bytes); }
  Result<LogChunk> next() { return read_(position_); }

 private:
  using Read = std::function<Result<LogChunk>(LogPosition& position)>;
  explicit LogSource(Read read) : read_(std::move(read)) {}

  Read read_;
  LogPosition position_;
};

}  // namespace mobula::internal::cli
