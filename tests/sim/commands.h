// What the program can be asked for: one history, sweeps, hashes, mutation proofs. One thread; histories
// whose core may abort run in a child process.
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
  int span_s = 0;
  std::uint64_t start = 20'260'101;  // what the histories of a sweep by time are drawn from
  std::uint64_t at_most = ~0ull;     // histories of such a sweep
  bool hashes = false;
  bool mutations = false;
  std::string mutation{};
  Mask mask{};
  bool list = false;
};

bool parse_range(const std::string& text, std::uint64_t& first, std::uint64_t& last);
// The program's exit code.
int run_command(const CommandOptions& options);

// Runs a history in a child process: a failed check of a core is an outcome ("abort") like any other.
Outcome run_guarded(const HistoryOptions& options);
// Leaves out items and faults while the same checker still fails.
Mask shrink(const HistoryOptions& options, const Outcome& failed);

}  // namespace mobula::internal::sim
