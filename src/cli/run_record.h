// What `mobula start` leaves in a cluster's folder about the processes it has started, so that
// `mobula stop` ends those and no others: <folder>/running/<pid>.json. A record is of one process
// of one boot; its pid alone would name a stranger after a while. Values and file I/O; any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace mobula::internal::cli {

struct RunRecord {
  pid_t pid = 0;                 // forwards signals to all it has started, and ends after them
  std::uint64_t start_time = 0;  // of the process, in the kernel's ticks since boot
  std::string boot_id;
  pid_t keeper = 0;   // above it; 0: none
  bool head = false;  // a head is among what it started
  std::string path;   // of the record; not in it

  // Of the calling process.
  static RunRecord of_this_process(bool head, bool has_keeper);
  // The process runs, and is the one that was recorded.
  bool alive() const;
};

Result<void> save(const RunRecord& record, const std::string& folder);
// All records of a cluster's folder, of ended processes too; none that was made in another folder, of which this
// one is a copy.
std::vector<RunRecord> records_of(const std::string& folder);

}  // namespace mobula::internal::cli
