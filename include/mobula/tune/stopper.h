// Rules that end single trials or the whole experiment.
// Thread: owner (the thread that runs the experiment). Errors: InvalidRequestError from `run` for
// options that break a rule.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mobula/amount.h>
#include <mobula/detail/export.h>
#include <mobula/tune/config.h>

namespace mobula::tune {

// A rule; its content belongs to the library.
class Stopper;
// A rule, shared with the experiment.
using StopperPtr = std::shared_ptr<const Stopper>;

// Options of TrialPlateauStopper.
struct TrialPlateauOptions {
  double std = 0.01;                            // largest standard deviation of a plateau
  int num_results = 4;                          // values of a plateau
  int grace_period = 4;                         // reports before the first decision
  std::optional<double> metric_threshold = {};  // decides only once a value has passed it
  Mode mode = Mode::min;                        // direction of the threshold
};
// Options of ExperimentPlateauStopper.
struct ExperimentPlateauOptions {
  double std = 0.001;     // largest standard deviation of a plateau
  int top = 10;           // best values that form it
  int patience = 0;       // reports on the plateau before the end
  Mode mode = Mode::min;  // direction of the metric
};
// Returns true to stop the trial that reported.
using StopFunction = std::function<bool(std::int64_t trial, const Metrics&)>;

// Stops a trial after `max_iter` reports.
MOBULA_API StopperPtr MaximumIterationStopper(int max_iter);
// Stops the experiment after `timeout`.
MOBULA_API StopperPtr TimeoutStopper(Duration timeout);
// Stops a trial whose metric does not change any more.
MOBULA_API StopperPtr TrialPlateauStopper(const std::string& metric,
                                          const TrialPlateauOptions& options = {});
// Stops the experiment when its best values do not change any more.
MOBULA_API StopperPtr ExperimentPlateauStopper(const std::string& metric,
                                               const ExperimentPlateauOptions& options = {});
// Stops trials by a function of the driver.
MOBULA_API StopperPtr FunctionStopper(StopFunction stop);
// The first rule that applies ends the evaluation.
MOBULA_API StopperPtr CombinedStopper(std::vector<StopperPtr> stoppers);

// Upper limits by metric, or a rule. A trial stops at value >= limit.
class Stop {
 public:
  // No limit.
  Stop() = default;
  // Limits by metric.
  Stop(std::initializer_list<std::pair<const std::string, double>> limits)
      : limits_(limits.begin(), limits.end()) {}
  // A rule.
  Stop(StopperPtr stopper) : stopper_(std::move(stopper)) {}  // NOLINT: implicit

  // Returns the limits in their order.
  const std::vector<std::pair<std::string, double>>& limits() const { return limits_; }
  // Returns the rule, or null.
  const StopperPtr& stopper() const { return stopper_; }

 private:
  std::vector<std::pair<std::string, double>> limits_;
  StopperPtr stopper_;
};

}  // namespace mobula::tune
