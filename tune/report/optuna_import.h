// Imports a study of Optuna from its SQLite storage (schema of Optuna 3 to 5) as an experiment.
// Thread: owner. Errors: not_found names the studies of the file; corrupt for a file without them.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "tune/store/experiment_location.h"

namespace mobula::internal::tune {

struct OptunaImport {
  std::string file = {};
  std::string study = {};            // empty: the only study of the file
  ExperimentLocation location = {};  // empty name: that of the study
};

struct ImportedStudy {
  std::string name = {};  // name of the experiment
  std::int64_t trials = 0;
};

// Objective 0 becomes the metric "value" of a last report, other objectives "value_1" and so on.
// Intermediate values become reports of the metric "intermediate" at their step + 1. Pruned trials
// have the end "stopped". Unfinished trials are failed.
Result<ImportedStudy> import_optuna(const OptunaImport& options);

}  // namespace mobula::internal::tune
