// Replays recordings of real processes (protocol/recording.h): constructs the same core, feeds it
// the same events at the same times, and compares its commands with the recorded ones. It tests the
// product instead of a model and steps through a fault of a real cluster.
// Thread: owner.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/result.h"

namespace mobula::internal::sim {

struct Replayed {
  std::uint64_t steps = 0;
  bool same = true;
  // The end of the file if its last step is incomplete, or the first difference in several lines.
  std::string text;
};

// Replays one file and prints every step to `trace` unless it is null. Fails if the file cannot be
// replayed. If a core aborts, the program prints the step and exits.
Result<Replayed> replay(const std::string& path, std::FILE* trace);

// Replays all files. Prints a line for each and, for several files, a summary. Returns the exit
// code: 0 if all steps gave the same commands.
int replay_files(const std::vector<std::string>& paths, bool trace);

}  // namespace mobula::internal::sim
