#include <cmath>
#include <functional>
#include <utility>

#include "tune/api/core_values.h"
#include "tune/api/scheduler_recipe.h"

namespace mobula::internal::tune {
namespace {

using MakeStopper = std::function<Result<TrialStopperPtr>()>;

class StopperRecipe final : public api::Stopper {
 public:
  explicit StopperRecipe(MakeStopper make_stopper) : make_(std::move(make_stopper)) {}
  Result<TrialStopperPtr> make() const override { return make_(); }

 private:
  MakeStopper make_;
};

api::StopperPtr stopper(MakeStopper make_stopper) {
  return std::make_shared<StopperRecipe>(std::move(make_stopper));
}

Result<TrialStopperPtr> combined(const std::vector<api::StopperPtr>& rules) {
  std::vector<TrialStopperPtr> made;
  for (const api::StopperPtr& rule : rules) {
    if (!rule) continue;
    Result<TrialStopperPtr> one = rule->make();
    if (!one) return one;
    made.push_back(std::move(*one));
  }
  return make_combined_stopper(std::move(made));
}

}  // namespace

Result<TrialStopperPtr> make_stopper(const api::Stop& stop, double time_budget_s) {
  std::vector<TrialStopperPtr> rules;
  if (time_budget_s > 0) rules.push_back(make_timeout_stopper(time_budget_s));
  if (stop.stopper()) {
    Result<TrialStopperPtr> rule = stop.stopper()->make();
    if (!rule) return rule;
    rules.push_back(std::move(*rule));
  }
  for (const auto& [metric, limit] : stop.limits())
    if (std::isnan(limit))
      return failure(ErrorCode::invalid_argument,
                     "the limit of '" + metric + "' is nan; pass a number");
  if (!stop.limits().empty()) rules.push_back(make_limit_stopper(stop.limits()));
  return make_combined_stopper(std::move(rules));
}

}  // namespace mobula::internal::tune

namespace mobula::tune {

using internal::tune::stopper;

StopperPtr MaximumIterationStopper(int max_iter) {
  return stopper([max_iter] { return internal::tune::make_iteration_stopper(max_iter); });
}

StopperPtr TimeoutStopper(Duration timeout) {
  return stopper([timeout]() -> internal::Result<internal::tune::TrialStopperPtr> {
    return internal::tune::make_timeout_stopper(timeout.count());
  });
}

StopperPtr TrialPlateauStopper(const std::string& metric, const TrialPlateauOptions& options) {
  return stopper([metric, options] {
    return internal::tune::make_trial_plateau_stopper(
        {.metric = metric,
         .deviation = options.std,
         .num_results = options.num_results,
         .grace_period = options.grace_period,
         .metric_threshold = options.metric_threshold,
         .mode = internal::tune::core_mode(options.mode)});
  });
}

StopperPtr ExperimentPlateauStopper(const std::string& metric,
                                    const ExperimentPlateauOptions& options) {
  return stopper([metric, options] {
    return internal::tune::make_experiment_plateau_stopper(
        {.metric = metric,
         .deviation = options.std,
         .top = options.top,
         .patience = options.patience,
         .mode = internal::tune::core_mode(options.mode)});
  });
}

StopperPtr FunctionStopper(StopFunction stop) {
  return stopper([stop = std::move(stop)]() -> internal::Result<internal::tune::TrialStopperPtr> {
    return internal::tune::make_function_stopper(
        [stop](std::int64_t trial, const internal::tune::Config& metrics) {
          return stop(trial, internal::tune::api_metrics(metrics));
        });
  });
}

StopperPtr CombinedStopper(std::vector<StopperPtr> stoppers) {
  return stopper([stoppers = std::move(stoppers)] { return internal::tune::combined(stoppers); });
}

}  // namespace mobula::tune
