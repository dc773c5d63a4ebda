// The commands of the program: one history, sweeps, hashes, and mutation proofs. Histories whose
// core may abort run in a child process.
// Thread: the only one of the program.
#pragma once

#include <cstdint>
#include <string>

#include "sim/world.h"

namespace mobula::internal::sim {

struct CommandOptions {
  std::uint64_t seed = 0;
  std::string scenario = "all";
  bool trace = false;
  bool sweep = false;
  std::uint64_t first = 1, last = 0;
  std::uint64_t scale_downs = 0;  // least number in a sweep of a scenario
  int span_s = 0;
  std::uint64_t start = 20'260'101;  // base of the seeds of a timed sweep
  std::uint64_t at_most = ~0ull;     // limit on the histories of a timed sweep
  bool hashes = false;
  bool mutations = false;
  std::string mutation{};
  Mask mask{};
  bool list = false;
};

bool parse_range(const std::string& text, std::uint64_t& first, std::uint64_t& last);
// Returns the program's exit code.
int run_command(const CommandOptions& options);

// Runs a history in the world of its scenario.
Outcome run_history(const HistoryOptions& options);
// Runs a history in a child process. A failed check of a core is then an ordinary outcome
// ("abort").
Outcome run_guarded(const HistoryOptions& options);
// Removes items and faults while the same checker still fails.
Mask shrink(const HistoryOptions& options, const Outcome& failed);

}  // namespace mobula::internal::sim
