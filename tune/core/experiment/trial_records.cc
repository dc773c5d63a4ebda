#include "tune/core/experiment/trial_records.h"

#include <algorithm>
#include <cmath>

namespace mobula::internal::tune {

void TrialRecords::add(TrialRecord record) {
  kept_.emplace(static_cast<TrialNumber>(size()), std::move(record));
  values_.push_back(std::numeric_limits<double>::quiet_NaN());
}

const TrialRecord& TrialRecords::find(TrialNumber trial) const {
  static const TrialRecord forgotten;
  const auto found = kept_.find(trial);
  return found == kept_.end() ? forgotten : found->second;
}

void TrialRecords::forget_ended() {
  for (const TrialNumber trial : ended_) {
    latest_.push_back(trial);
    if (const double score = sign_ * value(trial); !std::isnan(score)) {
      best_.emplace(score, -trial);
      if (best_.size() > most_best) {
        const TrialNumber worst = -best_.begin()->second;
        best_.erase(best_.begin());
        release(worst);
      }
    }
    if (latest_.size() > most_latest) {
      const TrialNumber oldest = latest_.front();
      latest_.pop_front();
      release(oldest);
    }
  }
  ended_.clear();
}

void TrialRecords::release(TrialNumber trial) {
  const bool best = std::any_of(best_.begin(), best_.end(),
                                [&](const Score& each) { return each.second == -trial; });
  if (!best && std::find(latest_.begin(), latest_.end(), trial) == latest_.end())
    kept_.erase(trial);
}

}  // namespace mobula::internal::tune
