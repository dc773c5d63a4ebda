// The content of a report about one experiment: samples of trials, curves, and attempts that are
// small enough for one page, and the importance of parameters.
// Thread: owner. Errors: the errors of ExperimentReader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tune/store/experiment_reader.h"

namespace mobula::internal::tune {

// A trial with a value.
struct ReportTrial {
  TrialNumber trial = 0;
  double value = 0;       // best value of the metric
  double standing = 0;    // 1 for the best trial, 0 for the worst
  bool improved = false;  // better than all trials of smaller numbers
  Config config = {};
};

struct ReportCurve {
  TrialNumber trial = 0;
  double standing = 0;
  std::vector<std::pair<double, double>> points = {};  // step, value
};

struct ReportImportance {
  std::string parameter;
  double share = 0;  // the shares of all parameters have the sum 1
};

struct ReportModel {
  StoredExperiment experiment = {};
  std::string state = {};
  std::vector<StateCount> counts = {};
  std::int64_t trial_count = 0;
  std::int64_t valued_count = 0;             // trials with a value
  std::int64_t elapsed_ms = 0;               // from the creation to the last end
  std::vector<ReportTrial> best = {};        // at most 10, best first
  std::vector<ReportTrial> history = {};     // sample in the order of numbers; all improvements
  std::vector<ReportTrial> sample = {};      // for parallel coordinates
  std::vector<ReportTrial> slices = {};      // for slices
  std::vector<std::string> parameters = {};  // the most important first; without constants
  std::vector<ReportImportance> importances = {};
  std::vector<ReportCurve> curves = {};
  // Trials that reached an iteration: iteration, count.
  std::vector<std::pair<std::int64_t, std::int64_t>> survivors = {};
  std::vector<StoredAttempt> attempts = {};  // the latest ones, in the order of their begin
  std::int64_t attempt_count = 0;
};

Result<ReportModel> report_model_of(ExperimentReader& reader, const std::string& state);

}  // namespace mobula::internal::tune
