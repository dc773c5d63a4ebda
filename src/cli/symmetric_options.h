// The flags of `mobula symmetric`: its own, and those that go on to `mobula start`. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "deploy/launch_place.h"

namespace mobula::internal::cli {

struct SymmetricOptions {
  deploy::PlaceFlags place{};
  std::string head_host{};  // address of the first rank's machine; empty: it is found out
  std::string
      shared_folder{};  // that all ranks see; empty: $SLURM_SUBMIT_DIR, else the current one
  Duration patience = std::chrono::seconds(300);  // until all have joined
  Duration grace = std::chrono::seconds(5);       // for running calls when it is ended by a signal
  std::vector<std::string> node_flags{};
  std::vector<std::string> program{};
  bool help = false;
};

extern const char* const symmetric_help;

// `words` are those after `symmetric`. Fails with invalid_argument.
Result<SymmetricOptions> parse_symmetric(const std::vector<std::string>& words);

}  // namespace mobula::internal::cli
