// The median stopping rule (Vizier): a trial stops if its best value is worse than the median of
// the means of the other trials up to the same time.
// Thread: owner. Errors: make_median_stopping names the option.
#pragma once

#include "tune/core/schedulers/trial_scheduler.h"

namespace mobula::internal::tune {

struct MedianStoppingSettings {
  Mode mode = Mode::min;
  double grace_period = 60, min_time_slice = 0;
  std::int64_t min_samples_required = 3;
  bool hard_stop = true;
};

Result<TrialSchedulerPtr> make_median_stopping(const MedianStoppingSettings& settings);

}  // namespace mobula::internal::tune
