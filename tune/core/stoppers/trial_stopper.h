// Rules that end single trials or the whole experiment, as in Ray Tune. Counters advance with each
// call, as they do there.
// Thread: owner (the core of one experiment). Units: seconds. Errors: make functions name the
// option; a report without the metric of a limit.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tune/core/schedulers/trial_scheduler.h"

namespace mobula::internal::tune {

class TrialStopper {
 public:
  virtual ~TrialStopper() = default;
  // A report of a trial: true stops the trial. Metrics by name.
  virtual Result<bool> stops(TrialNumber trial, const Config& metrics) = 0;
  // The reason for the last true of `stops`: "loss 0.5 reaches its limit 0.4 of RunOptions::stop".
  virtual std::string reason() const { return "a stopper of RunOptions::stop returned true"; }
  // True stops the experiment. The driver calls it after each report and on a timer.
  virtual bool stops_all(double /*now_s*/) { return false; }
  // The process continues after a stop: that time does not count.
  virtual void resumed() {}

  virtual std::string save() const = 0;
  virtual Result<void> load(std::string_view state) = 0;
};
using TrialStopperPtr = std::unique_ptr<TrialStopper>;

struct TrialPlateauSettings {
  std::string metric;
  double deviation = 0.01;
  int num_results = 4, grace_period = 4;
  std::optional<double> metric_threshold = {};
  Mode mode = Mode::min;
};
struct ExperimentPlateauSettings {
  std::string metric;
  double deviation = 0.001;
  int top = 10, patience = 0;
  Mode mode = Mode::min;
};

// Stops at value >= limit, for both modes.
TrialStopperPtr make_limit_stopper(std::vector<std::pair<std::string, double>> limits);
Result<TrialStopperPtr> make_iteration_stopper(std::int64_t max_iterations);
TrialStopperPtr make_timeout_stopper(double timeout_s);
Result<TrialStopperPtr> make_trial_plateau_stopper(const TrialPlateauSettings& settings);
Result<TrialStopperPtr> make_experiment_plateau_stopper(const ExperimentPlateauSettings& settings);
TrialStopperPtr make_function_stopper(std::function<bool(TrialNumber, const Config&)> stops);
// The first stopper that returns true ends the evaluation.
TrialStopperPtr make_combined_stopper(std::vector<TrialStopperPtr> stoppers);

}  // namespace mobula::internal::tune
