// Exports an experiment as a study in the SQLite storage of Optuna 5 (schema 12).
// Thread: owner. Errors: the errors of ExperimentReader, and failures of the new file.
#pragma once

#include <string>

#include "base/result.h"
#include "tune/store/experiment_reader.h"

namespace mobula::internal::tune {

// Writes a new file at `path`; the study has the name of the experiment. A terminated trial with a
// last value is COMPLETE with that value. Without a value it is PRUNED. With the value NaN it is
// FAIL, as in Optuna. Values of the metric are intermediate values at their iteration -
// 1, those of the last attempt if several have the iteration. Other metrics of the last report and
// the error are user attributes. A range is widened to the values in use.
Result<void> export_optuna(ExperimentReader& reader, const std::string& path);

}  // namespace mobula::internal::tune
