// The command of a submitted job, which runs in a slot instead of an executor.
// Thread: owner (plain values).
#pragma once

#include <string>
#include <vector>

#include "base/fields.h"
#include "base/time.h"

namespace mobula::internal {

struct EntryPoint {
  std::vector<std::string> argv;   // empty: no command; a name without '/' is searched in PATH
  std::string working_dir;         // empty or absent: a scratch directory of the node
  bool needs_working_dir = false;  // the directory must exist
  Duration time_limit{};           // limit of one attempt; 0: none
  Duration grace = std::chrono::seconds(10);  // grace between SIGTERM and SIGKILL
  bool given() const { return !argv.empty(); }
  MOBULA_FIELDS(argv, working_dir, needs_working_dir, time_limit, grace);
  friend bool operator==(const EntryPoint&, const EntryPoint&) = default;
};

}  // namespace mobula::internal
