// The directory of an experiment: STORAGE/NAME with experiment.sqlite, experiment.lock, and
// checkpoints/.
// Thread: any. Errors: invalid_argument for a name that cannot be a directory.
#pragma once

#include <string>

#include "base/result.h"

namespace mobula::internal::tune {

struct ExperimentLocation {
  std::string storage = {};  // directory of all experiments
  std::string name = {};

  std::string directory() const { return storage + "/" + name; }
  std::string file() const { return directory() + "/experiment.sqlite"; }
  std::string lock_file() const { return directory() + "/experiment.lock"; }
  std::string checkpoints() const { return directory() + "/checkpoints"; }

  // At most 200 bytes, no slash, no control characters, no dot at the beginning.
  Result<void> check() const;
};

// MOBULA_TUNE_STORAGE, or ~/mobula_tune.
std::string default_storage();

}  // namespace mobula::internal::tune
