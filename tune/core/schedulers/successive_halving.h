// Asynchronous successive halving (ASHA, arXiv 1810.05934).
// `stopping`, as in Ray: a report that reaches a rung stops the trial if it is worse than the
// quantile of the rung. `promotion`, algorithm 2 of the paper: a trial pauses at every rung, and it
// continues when it belongs to the best 1 / reduction_factor of the rung.
// Thread: owner. Errors: make_successive_halving names the option.
#pragma once

#include <optional>

#include "tune/core/schedulers/trial_scheduler.h"

namespace mobula::internal::tune {

struct SuccessiveHalvingSettings {
  enum class Type : unsigned char { stopping, promotion };
  Mode mode = Mode::min;
  double max_t = 100, grace_period = 1, reduction_factor = 4;
  int brackets = 1;
  bool stop_last_trials = true;
  Type type = Type::stopping;
};

Result<TrialSchedulerPtr> make_successive_halving(const SuccessiveHalvingSettings& settings);

}  // namespace mobula::internal::tune
