// Records of the processes that `mobula start` starts, so that `mobula stop` ends those alone:
// running/<pid>.json in the cluster's directory. A record identifies a process of one boot, because
// a pid is reused.
// Thread: any; reads and writes files.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace mobula::internal::cli {

struct RunRecord {
  pid_t pid = 0;                 // forwards signals to its children and exits after them
  std::uint64_t start_time = 0;  // start of the process, in the kernel's ticks since boot
  std::string boot_id;
  pid_t shim = 0;     // shim above it; 0: none
  bool head = false;  // a head is among its children
  std::string path;   // path of the record; not stored in it

  // Returns the record of the calling process.
  static RunRecord of_this_process(bool head, bool has_shim);
  // Reports whether the recorded process still runs.
  bool alive() const;
};

Result<void> save(const RunRecord& record, const std::string& directory);
// Returns all records of a cluster's directory, including exited processes. Records that were
// copied from another directory are skipped.
std::vector<RunRecord> records_of(const std::string& directory);

}  // namespace mobula::internal::cli
