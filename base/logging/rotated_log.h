// Reads parts of a rotated log, of which old files are removed. Each read continues at the end of
// the previous one, even if the log was rotated in between. Stateless; files usually are in the
// page cache.
// Thread: any.
// Errors: not_found; invalid_argument.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace mobula::internal {

// A byte of a log. `file` identifies a file even if its name or inode is reused. With `file` 0, the
// position is the oldest byte, or -`from` bytes before the end if `from` is negative.
struct LogPosition {
  std::uint64_t file = 0;
  std::int64_t from = 0;
};

struct LogBytes {
  std::vector<std::byte> bytes;
  LogPosition next;        // position for the next read
  std::uint64_t left = 0;  // bytes after this part
  bool lost = false;       // the requested position is no longer kept
};

// `paths` are the possible names of the files, the newest first; missing files are skipped. Returns
// at most `limit` bytes of one file. not_found if no file exists.
Result<LogBytes> read_log(const std::vector<std::string>& paths, LogPosition position,
                          std::uint64_t limit);

// The path of the predecessor of a log of this process (base/logging/log.h): "head.log" becomes
// "head.1.log".
std::string rotated_log_path(const std::string& path);

// Formats and parses a position; invalid_argument for other text.
std::string to_string(const LogPosition& position);
Result<LogPosition> parse_log_position(const std::string& text);

}  // namespace mobula::internal
