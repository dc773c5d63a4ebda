// Replays recordings of real processes (protocol/recording.h): constructs the same core, tells it
// the same events at the same times, and compares what it wants done with what it wanted then.
// Tests the product rather than a model of it, and shows a fault of a real cluster step by step.
// One thread.
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
  // How the file ends, where not with a whole step; or the first difference, over several lines.
  std::string text;
};

// `trace` not null: every step is printed there. Fails for a file that cannot be replayed. A core
// that aborts ends the program, which then says at which step.
Result<Replayed> replay(const std::string& path, std::FILE* trace);

// Replays all of them, a line for each and, if there are several, one for all. The program's exit
// code: 0 if all steps gave the same commands.
int replay_files(const std::vector<std::string>& paths, bool trace);

}  // namespace mobula::internal::sim
