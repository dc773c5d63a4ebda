// Exports of an experiment: CSV with one row per report, and JSON lines with one object per trial.
// Memory is that of one trial.
// Thread: owner. Errors: the errors of ExperimentReader; `sink` returns false to end the export.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tune/store/experiment_reader.h"

namespace mobula::internal::tune {

using ExportSink = std::function<bool(std::string_view)>;

// Columns: trial, state, attempt, iteration, time_ms, config/NAME of each parameter, and each
// metric. A trial without reports has one row. Numbers read back exactly.
Result<void> export_csv(ExperimentReader& reader, const ExportSink& sink);
// {"trial": 0, "state": "terminated", "config": {…}, "reports": [{"iteration": 1, …}], …}
Result<void> export_json_lines(ExperimentReader& reader, const ExportSink& sink);

}  // namespace mobula::internal::tune
