// The executors of this agent, in a file for the next agent on the machine, which may offer their
// devices only after all of them have exited. The file has lines: each change is appended, and the
// file is rewritten (by rename) when most lines are obsolete.
// Thread: owner.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "base/id.h"
#include "base/result.h"
#include "base/time.h"
#include "worker/process/watch/process_tree.h"

namespace mobula::internal::worker {

class ExecutorTable {
 public:
  // Creates an empty table. Call `reap_leftovers` for that path first.
  static Result<ExecutorTable> create(std::string path);

  // Returns a failed write; the process is recorded in memory all the same.
  Result<void> add(PidIdentity process, SlotId slot);
  Result<void> remove(PidIdentity process);
  std::size_t size() const { return slots_.size(); }

 private:
  explicit ExecutorTable(std::string path) : path_(std::move(path)) {}
  Result<void> rewrite();
  Result<void> append(const std::string& line);

  std::string path_;
  Fd file_;
  std::map<PidIdentity, SlotId> slots_;
  std::size_t lines_ = 0;
};

// Kills every process in the table at `path` and the processes that it started, and waits for their
// exit. Processes are identified by pid, start time and boot, so a process with a reused pid is not
// touched. Returns the number of killed processes, 0 without a file. Fails with timed_out and their
// names if some are left after `limit`. Blocks.
Result<std::size_t> reap_leftovers(const std::string& path, Duration limit);

}  // namespace mobula::internal::worker
