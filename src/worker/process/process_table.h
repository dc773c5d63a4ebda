// The executors of this agent, written where the next agent on the machine finds them: that one may
// offer their devices only when all of them are gone. A file of lines, appended to at every change
// and rewritten (by rename) when most of it is history. One thread.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "base/id.h"
#include "base/result.h"
#include "base/time.h"
#include "worker/process/process_tree.h"

namespace mobula::internal::worker {

class ProcessTable {
 public:
  // Starts an empty table; `reap_leftovers` has been called for that path before.
  static Result<ProcessTable> create(std::string path);

  // A disk that refuses is reported, and the process counts as recorded in memory.
  Result<void> add(ProcessStamp process, SlotId slot);
  Result<void> remove(ProcessStamp process);
  std::size_t size() const { return slots_.size(); }

 private:
  explicit ProcessTable(std::string path) : path_(std::move(path)) {}
  Result<void> rewrite();
  Result<void> append(const std::string& line);

  std::string path_;
  Fd file_;
  std::map<ProcessStamp, SlotId> slots_;
  std::size_t lines_ = 0;
};

// Kills every process that the table at `path` names and what those have started, and waits until
// all of it is gone. A process is known by pid, start time and boot, so an innocent one with a
// reused pid is left alone. Returns how many were killed; a missing file is none. Fails with
// timed_out, naming them, if some are left after `limit`. Blocks.
Result<std::size_t> reap_leftovers(const std::string& path, Duration limit);

}  // namespace mobula::internal::worker
