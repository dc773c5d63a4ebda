#include "tune/core/schedulers/hyperband_bracket.h"

#include <algorithm>
#include <cmath>

namespace mobula::internal::tune {

HyperBandBracket::HyperBandBracket(const BracketShape& shape, double max_t, double reduction_factor,
                                   bool stop_last_trials)
    : size_(shape.trials),
      milestone_(static_cast<double>(shape.milestone)),
      halvings_(shape.halvings),
      max_t_(max_t),
      reduction_factor_(reduction_factor),
      stop_last_trials_(stop_last_trials) {
  double count = static_cast<double>(size_);
  double steps = milestone_;
  for (std::int64_t round = 0; round <= halvings_; ++round) {
    work_ += std::trunc(count) * std::trunc(steps);
    count = std::ceil(count / reduction_factor_);
    steps = std::trunc(std::min(steps * reduction_factor_, max_t_ - milestone_));
  }
}

const HyperBandBracket::Live* HyperBandBracket::find(TrialNumber trial) const {
  const auto at = std::find_if(live_.begin(), live_.end(),
                               [&](const Live& live) { return live.trial == trial; });
  return at == live_.end() ? nullptr : &*at;
}

bool HyperBandBracket::round_done() const {
  return std::all_of(live_.begin(), live_.end(),
                     [&](const Live& live) { return live.time >= milestone_; });
}

bool HyperBandBracket::continues(TrialNumber trial) const {
  if (!stop_last_trials_ && halvings_ == 0) return true;
  const Live* live = find(trial);
  return live == nullptr || live->time < milestone_;
}

double HyperBandBracket::completion() const {
  return finished() ? 1.0 : std::min(progress_ / work_, 1.0);
}

bool HyperBandBracket::update(TrialNumber trial, double time, double score) {
  for (Live& live : live_) {
    if (live.trial != trial) continue;
    progress_ += time - live.time;
    live.reported = true;
    live.time = time;
    live.score = score;
    to_resume_.erase(trial);
    return true;
  }
  return false;
}

void HyperBandBracket::remove(TrialNumber trial) {
  std::erase_if(live_, [&](const Live& live) { return live.trial == trial; });
}

HyperBandBracket::Halves HyperBandBracket::halve() {
  was_halved_ = true;
  Halves halves;
  if (halvings_ == 0) {  // a bracket that does not stop its last trials
    for (const Live& live : live_) halves.good.push_back(live.trial);
    return halves;
  }
  --halvings_;
  size_ = static_cast<std::int64_t>(std::ceil(static_cast<double>(size_) / reduction_factor_));
  milestone_ = std::trunc(std::min(milestone_ * reduction_factor_, max_t_));
  std::vector<const Live*> sorted;
  for (const Live& live : live_) sorted.push_back(&live);
  // NaN is the worst score; Ray leaves its place open.
  std::stable_sort(sorted.begin(), sorted.end(), [](const Live* a, const Live* b) {
    if (std::isnan(a->score) || std::isnan(b->score))
      return std::isnan(a->score) && !std::isnan(b->score);
    return a->score < b->score;
  });
  const std::size_t kept = std::min(static_cast<std::size_t>(size_), sorted.size());
  for (std::size_t i = 0; i < sorted.size(); ++i)
    (i + kept < sorted.size() ? halves.bad : halves.good).push_back(sorted[i]->trial);
  return halves;
}

}  // namespace mobula::internal::tune
