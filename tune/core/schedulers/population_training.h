// Population based training (arXiv 1711.09846) with the decisions of Ray, and the replay of a
// recorded policy.
// Thread: owner. Errors: make functions name the option or the row of the policy; a report without
// time or metric names the trial.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tune/core/schedulers/population_explore.h"
#include "tune/core/schedulers/trial_scheduler.h"

namespace mobula::internal::tune {

struct PopulationSettings {
  Mode mode = Mode::min;
  double perturbation_interval = 60, burn_in_period = 0;
  double quantile_fraction = 0.25;
  bool synch = false;
  ExploreRules explore = {};
};

// With a model, its suggestions replace explore().
Result<TrialSchedulerPtr> make_population_training(PopulationSettings settings,
                                                   std::unique_ptr<ExploreModel> model = nullptr);

// One row of a policy file: `recipient` took over `donor` at these steps.
struct PolicyRow {
  std::string recipient, donor;
  std::int64_t recipient_step = 0, donor_step = 0;
  Config donor_config = {}, config = {};
};

// Accepts one trial. Its reports carry the iteration as their time.
TrialSchedulerPtr make_policy_replay(const std::vector<PolicyRow>& rows);

}  // namespace mobula::internal::tune
