// The flags of `mobula symmetric`, and the flags that it passes to `mobula start`.
// Thread: any.
// Errors: invalid_argument names the flag.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "deploy/launch_position.h"

namespace mobula::internal::cli {

struct SymmetricOptions {
  deploy::PositionFlags position{};
  std::string head_host{};  // address of rank 0's machine; empty: detected
  std::string
      shared_dir{};  // shared by all ranks; empty: $SLURM_SUBMIT_DIR, else the current directory
  Duration join_timeout = std::chrono::seconds(300);  // until all ranks have joined
  Duration grace = std::chrono::seconds(5);  // for running calls when a signal ends the launch
  std::vector<std::string> node_flags{};
  std::vector<std::string> program{};
  bool help = false;
};

// Parses the words after `symmetric`.
Result<SymmetricOptions> parse_symmetric(const std::vector<std::string>& words);

}  // namespace mobula::internal::cli
