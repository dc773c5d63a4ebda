// One log as a command reads it, part by part, wherever it lies: a file of this machine, or one that an agent,
// or the head, reads for it. Remembers only its place. Main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/rotated_log.h"
#include "cli/asker.h"

namespace mobula::internal::cli {

struct LogChunk {
  std::string bytes;
  std::uint64_t left = 0;       // bytes there are beyond
  std::uint64_t lost_bytes = 0;  // that are no longer kept; 1 where nobody knows how many
  bool open = true;             // somebody may write more
};

class LogSource {
 public:
  // Of this machine: the names its files may have, the newest first.
  static LogSource of_files(std::vector<std::string> paths);
  static LogSource of_head(Asker& asker);
  static LogSource of_node(Asker& asker, std::string node, std::string log);
  // What a submitted job has printed.
  static LogSource of_job(Asker& asker, std::string job);

  // Begins so many bytes before the end. Before the first part; not of jobs.
  void begin_near_end(std::uint64_t bytes) { place_.from = -static_cast<std::int64_t>(bytes); }
  Result<LogChunk> next() { return read_(place_); }

 private:
  using Read = std::function<Result<LogChunk>(LogPlace& place)>;
  explicit LogSource(Read read) : read_(std::move(read)) {}

  Read read_;
  LogPlace place_;
};

}  // namespace mobula::internal::cli
