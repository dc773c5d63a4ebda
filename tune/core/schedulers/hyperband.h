// HyperBand with synchronous halving, and its variant for the BOHB searcher (HyperBandForBOHB of
// Ray: the largest bracket first, and trials pause although their bracket is not filled).
// Thread: owner. Errors: make_hyperband names the option; a report without time or metric.
#pragma once

#include "tune/core/schedulers/trial_scheduler.h"

namespace mobula::internal::tune {

struct HyperBandSettings {
  Mode mode = Mode::min;
  double max_t = 81, reduction_factor = 3;
  bool stop_last_trials = true;
  bool for_bohb = false;
};

class HyperBandScheduler : public TrialScheduler {
 public:
  // The milestone of the bracket that the last report of `trial` reached: the budget that the BOHB
  // searcher learns from. Absent below the milestone.
  virtual std::optional<double> budget_of_report(TrialNumber trial) const = 0;
};

Result<std::unique_ptr<HyperBandScheduler>> make_hyperband(const HyperBandSettings& settings);

}  // namespace mobula::internal::tune
