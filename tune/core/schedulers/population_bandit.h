// PB2 (arXiv 2002.02518): population based training whose new values come from a time-varying
// Gaussian process of the changes of the score, as in Ray's pb2_utils.
// Thread: owner. Errors: make_population_bandit names the option; a report without time or metric
// names the trial.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tune/core/schedulers/population_explore.h"

namespace mobula::internal::tune {

struct Pb2Settings {
  Mode mode = Mode::min;
  double perturbation_interval = 60;
  double quantile_fraction = 0.25;
  bool synch = false;
  // Low and high of each parameter, in their order.
  std::vector<std::pair<std::string, std::pair<double, double>>> bounds = {};
};

Result<TrialSchedulerPtr> make_population_bandit(const Pb2Settings& settings);

// The model alone, for tests. Its data are the latest 300 changes; Ray has 1,000, whose fit takes
// seconds.
std::unique_ptr<ExploreModel> make_bandit_model(const Pb2Settings& settings);

}  // namespace mobula::internal::tune
