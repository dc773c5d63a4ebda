// Reads a log that is written into one file after another, of which the earlier ones are removed: parts of
// it, each from the place where the one before has ended, whatever has been rotated meanwhile. Keeps
// nothing between two reads. Files are read from the page cache as a rule; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace mobula::internal {

// A byte of a log. `file` tells its files apart, also when a name or an inode is used again; 0: from the
// oldest byte there is, or from so many before the end where `from` is negative.
struct LogPlace {
  std::uint64_t file = 0;
  std::int64_t from = 0;
};

struct LogBytes {
  std::vector<std::byte> bytes;
  LogPlace next;           // where to go on
  std::uint64_t left = 0;  // bytes there are beyond
  bool lost = false;       // what stood at the place that was asked for is no longer kept
};

// `paths` are the names that its files may have, the newest first; those that are not there are passed over.
// At most `limit` bytes, of one file. not_found where there is no file at all.
Result<LogBytes> read_log(const std::vector<std::string>& paths, LogPlace place, std::uint64_t limit);

// Where a log that the process writes itself (base/log.h) is moved when it is full: "head.log" to "head.1.log".
std::string rotated_log_path(const std::string& path);

// The place as text, and back; invalid_argument for other text.
std::string to_string(const LogPlace& place);
Result<LogPlace> parse_log_place(const std::string& text);

}  // namespace mobula::internal
