#include "tune/core/schedulers/successive_halving.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numbers>
#include <set>
#include <utility>

#include "tune/core/numpy_arithmetic.h"
#include "tune/core/schedulers/running_percentile.h"
#include "tune/core/state_archive.h"

namespace mobula::internal::tune {
namespace {

constexpr int max_rungs = 10'000;

// A set of trial numbers as bits.
class TrialBits {
 public:
  bool has(TrialNumber trial) const {
    const auto word = static_cast<std::size_t>(trial) / 64;
    return word < words_.size() && (words_[word] >> (static_cast<unsigned>(trial) % 64) & 1U) != 0;
  }
  void insert(TrialNumber trial) {
    const auto word = static_cast<std::size_t>(trial) / 64;
    if (word >= words_.size()) words_.resize(word + 1 + word / 2);
    words_[word] |= std::uint64_t{1} << (static_cast<unsigned>(trial) % 64);
  }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.words_);
  }

 private:
  std::vector<std::uint64_t> words_;
};

struct StoppingRung {
  double milestone = 0;
  TrialBits recorded = {};
  RunningPercentile cutoff = RunningPercentile();

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.milestone, self.recorded, self.cutoff);
  }
};

using StoppingBracket = std::vector<StoppingRung>;  // the highest rung first

// NumPy divides the percentage by 100 again, which may change the last bit.
double cutoff_fraction(double reduction_factor) { return (1 - 1 / reduction_factor) * 100 / 100; }

StoppingBracket make_bracket(const SuccessiveHalvingSettings& settings, int number) {
  const double count =
      std::log(settings.max_t / settings.grace_period) / std::log(settings.reduction_factor) -
      number + 1;
  StoppingBracket bracket;
  for (int k = static_cast<int>(count) - 1; k >= 0; --k) {
    StoppingRung& rung = bracket.emplace_back();
    rung.milestone = settings.grace_period * std::pow(settings.reduction_factor, k + number);
    rung.cutoff = RunningPercentile(cutoff_fraction(settings.reduction_factor));
  }
  return bracket;
}

class StoppingScheduler final : public TrialScheduler {
 public:
  explicit StoppingScheduler(const SuccessiveHalvingSettings& settings)
      : settings_(settings), sign_(sign_of(settings.mode)) {
    for (int s = 0; s < settings.brackets; ++s) brackets_.push_back(make_bracket(settings, s));
    double most = 0;
    for (const auto& bracket : brackets_)
      most = std::max(most, static_cast<double>(bracket.size()));
    for (const auto& bracket : brackets_)
      shares_.push_back(std::pow(std::numbers::e, static_cast<double>(bracket.size()) - most));
    const double sum = pairwise_sum(shares_);
    for (double& share : shares_) share /= sum;
  }

  Result<void> added(TrialNumber trial, SchedulerStep step) override {
    const auto at = static_cast<std::size_t>(trial);
    if (at >= bracket_of_.size()) bracket_of_.resize(at + 1 + at / 2, -1);
    bracket_of_[at] = static_cast<std::int32_t>(step.random.numpy.weighted(shares_));
    return {};
  }

  Result<Decision> reported(const Report& report, SchedulerStep step) override {
    if (!is_complete(report)) return Decision::proceed;
    if (*report.time >= settings_.max_t && settings_.stop_last_trials) {
      note(step, report, Decision::stop, settings_.max_t, {}, 0);
      return Decision::stop;
    }
    return record(report, &step);
  }

  void completed(const Report& last, SchedulerStep /*step*/) override {
    if (!is_complete(last)) return;
    record(last, nullptr);
    forget(last.trial);
  }
  void removed(TrialNumber trial, SchedulerStep /*step*/) override { forget(trial); }

  std::optional<TrialNumber> choose(SchedulerStep step) override {
    return choose_in_order(step.trials);
  }

  std::string save() const override { return save_state(*this); }
  Result<void> load(std::string_view state) override {
    return load_state(*this, state, "ASHA scheduler");
  }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.brackets_, self.bracket_of_);
  }

 private:
  // With `step`, the result is a decision.
  Decision record(const Report& report, const SchedulerStep* step) {
    const auto at = static_cast<std::size_t>(report.trial);
    if (at >= bracket_of_.size() || bracket_of_[at] < 0) return Decision::proceed;
    const double score = sign_ * *report.value;
    for (StoppingRung& rung : brackets_[static_cast<std::size_t>(bracket_of_[at])]) {
      const bool reached = *report.time >= rung.milestone;
      if (!reached && !settings_.stop_last_trials) continue;
      const bool recorded = rung.recorded.has(report.trial);
      if (reached && recorded && !settings_.stop_last_trials) return Decision::proceed;
      if (*report.time < rung.milestone || recorded) continue;
      const std::optional<double> cutoff = rung.cutoff.value();
      const std::size_t compared = rung.cutoff.size();
      rung.cutoff.add(score);
      rung.recorded.insert(report.trial);
      const Decision decision = cutoff && score < *cutoff ? Decision::stop : Decision::proceed;
      if (step != nullptr) note(*step, report, decision, rung.milestone, cutoff, compared);
      return decision;
    }
    return Decision::proceed;
  }

  void note(const SchedulerStep& step, const Report& report, Decision decision, double milestone,
            std::optional<double> cutoff, std::size_t compared) const {
    const auto at = static_cast<std::size_t>(report.trial);
    DecisionNote note{.trial = report.trial,
                      .outcome = decision == Decision::stop ? DecisionNote::Outcome::stopped
                                                            : DecisionNote::Outcome::continued,
                      .milestone = milestone,
                      .value = report.value,
                      .compared = static_cast<std::int64_t>(compared)};
    if (at < bracket_of_.size() && bracket_of_[at] >= 0) note.bracket = bracket_of_[at];
    if (cutoff) note.cutoff = sign_ * *cutoff;
    step.trials.note(std::move(note));
  }

  void forget(TrialNumber trial) {
    const auto at = static_cast<std::size_t>(trial);
    if (at < bracket_of_.size()) bracket_of_[at] = -1;
  }

  SuccessiveHalvingSettings settings_;
  double sign_;
  std::vector<double> shares_;  // probability of each bracket
  std::vector<StoppingBracket> brackets_;
  std::vector<std::int32_t> bracket_of_;  // by trial; -1: not scheduled
};

struct PromotionRung {
  double milestone = 0;
  RunningPercentile cutoff = RunningPercentile();
  // Entries that were not promoted: (negated score, order of arrival), trial.
  std::map<std::pair<double, std::int64_t>, TrialNumber> waiting = {};

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.milestone, self.cutoff, self.waiting);
  }
};

class PromotionScheduler final : public TrialScheduler {
 public:
  explicit PromotionScheduler(const SuccessiveHalvingSettings& settings)
      : settings_(settings), sign_(sign_of(settings.mode)) {
    for (int k = 0; k < max_rungs; ++k) {
      const double milestone = settings.grace_period * std::pow(settings.reduction_factor, k);
      if (milestone >= settings.max_t) break;
      PromotionRung& rung = rungs_.emplace_back();
      rung.milestone = milestone;
      const double share = 1 / settings.reduction_factor;
      rung.cutoff = settings.mode == Mode::min
                        ? RunningPercentile(share, RunningPercentile::Rounding::ascending)
                        : RunningPercentile(1 - share, RunningPercentile::Rounding::descending);
    }
  }

  Result<void> added(TrialNumber trial, SchedulerStep /*step*/) override {
    next_rung_.try_emplace(trial, 0);
    return {};
  }

  Result<Decision> reported(const Report& report, SchedulerStep step) override {
    if (!is_complete(report)) return Decision::proceed;
    const auto next = next_rung_.find(report.trial);
    if (next == next_rung_.end()) return Decision::proceed;
    if (*report.time >= settings_.max_t) {
      next_rung_.erase(next);
      if (!settings_.stop_last_trials) return Decision::proceed;
      step.trials.note({.trial = report.trial,
                        .outcome = DecisionNote::Outcome::stopped,
                        .milestone = settings_.max_t,
                        .value = report.value});
      return Decision::stop;
    }
    if (next->second >= rungs_.size() || *report.time < rungs_[next->second].milestone)
      return Decision::proceed;
    PromotionRung& rung = rungs_[next->second];
    const double score = sign_ * *report.value;
    rung.cutoff.add(*report.value);
    // NaN is never promoted.
    if (!std::isnan(score)) rung.waiting.emplace(std::pair(-score, arrivals_), report.trial);
    ++arrivals_;
    note(step, rung, report.trial, *report.value, DecisionNote::Outcome::paused);
    return Decision::pause;
  }

  void completed(const Report& last, SchedulerStep /*step*/) override { forget(last.trial); }
  void removed(TrialNumber trial, SchedulerStep /*step*/) override { forget(trial); }

  std::optional<TrialNumber> choose(SchedulerStep step) override {
    for (std::size_t i = rungs_.size(); i-- > 0;) {
      PromotionRung& rung = rungs_[i];
      const auto best = rung.waiting.begin();
      if (best == rung.waiting.end() || rung.cutoff.size() < 2) continue;
      if (-best->first.first < sign_ * *rung.cutoff.value()) continue;
      const TrialNumber trial = best->second;
      // The checkpoint of its pause is not saved yet.
      if (step.trials.state(trial) != TrialState::paused) continue;
      note(step, rung, trial, -sign_ * best->first.first, DecisionNote::Outcome::promoted);
      rung.waiting.erase(best);
      next_rung_[trial] = i + 1;
      return trial;
    }
    return step.trials.first(TrialState::pending);
  }
  bool pauses_for_good() const override { return true; }

  std::string save() const override { return save_state(*this); }
  Result<void> load(std::string_view state) override {
    return load_state(*this, state, "ASHA promotion scheduler");
  }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.rungs_, self.next_rung_, self.arrivals_);
  }

 private:
  static void note(SchedulerStep step, const PromotionRung& rung, TrialNumber trial, double value,
                   DecisionNote::Outcome outcome) {
    DecisionNote note{.trial = trial,
                      .outcome = outcome,
                      .milestone = rung.milestone,
                      .value = value,
                      .compared = static_cast<std::int64_t>(rung.cutoff.size())};
    // One value is compared with nothing.
    if (rung.cutoff.size() >= 2) note.cutoff = rung.cutoff.value();
    step.trials.note(std::move(note));
  }

  void forget(TrialNumber trial) {
    const auto next = next_rung_.find(trial);
    if (next == next_rung_.end()) return;
    if (next->second < rungs_.size())
      std::erase_if(rungs_[next->second].waiting,
                    [&](const auto& entry) { return entry.second == trial; });
    next_rung_.erase(next);
  }

  SuccessiveHalvingSettings settings_;
  double sign_;
  std::vector<PromotionRung> rungs_;                // the lowest first
  std::map<TrialNumber, std::uint64_t> next_rung_;  // the rung at which a live trial pauses
  std::int64_t arrivals_ = 0;
};

Failure asha_option(const char* name, double value, const char* advice) {
  return failure(ErrorCode::invalid_argument,
                 fmt::format("AsyncHyperBandOptions::{}: {}; {}", name, value, advice));
}

}  // namespace

Result<TrialSchedulerPtr> make_successive_halving(const SuccessiveHalvingSettings& settings) {
  if (!(settings.max_t > 0)) return asha_option("max_t", settings.max_t, "pass a value above 0");
  if (!(settings.grace_period > 0) || settings.grace_period > settings.max_t)
    return asha_option("grace_period", settings.grace_period, "pass a value in (0, max_t]");
  if (!(settings.reduction_factor > 1))
    return asha_option("reduction_factor", settings.reduction_factor, "pass a value above 1");
  if (settings.brackets < 1) return asha_option("brackets", settings.brackets, "pass at least 1");
  if (std::log(settings.max_t / settings.grace_period) / std::log(settings.reduction_factor) >
      max_rungs)
    return asha_option("reduction_factor", settings.reduction_factor,
                       "pass a larger one: at most 10,000 rungs");
  if (settings.type == SuccessiveHalvingSettings::Type::stopping)
    return TrialSchedulerPtr(std::make_unique<StoppingScheduler>(settings));
  if (settings.brackets > 1)
    return asha_option("brackets", settings.brackets, "type promotion has one bracket");
  return TrialSchedulerPtr(std::make_unique<PromotionScheduler>(settings));
}

}  // namespace mobula::internal::tune
