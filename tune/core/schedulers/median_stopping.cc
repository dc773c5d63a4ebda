#include "tune/core/schedulers/median_stopping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tune/core/numpy_arithmetic.h"
#include "tune/core/state_archive.h"

namespace mobula::internal::tune {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// The reports of one trial, in order of arrival.
class ReportHistory {
 public:
  void add(double time, double value, double grace, bool largest) {
    ascending_ = ascending_ && (times_.empty() || times_.back() <= time);
    if (ascending_ && time < grace) ++skipped_;
    // Python's max and min keep a NaN at the front.
    if (times_.empty() || (largest ? value > best_ : value < best_)) best_ = value;
    times_.push_back(time);
    values_.push_back(value);
  }
  bool empty() const { return times_.empty(); }
  double last_time() const { return times_.back(); }
  double best() const { return best_; }

  // Mean of the values with grace <= time <= `until`; NaN without such a value.
  double mean_until(double grace, double until) {
    if (!ascending_) {
      std::vector<double> scoped;
      for (std::size_t i = 0; i < times_.size(); ++i)
        if (grace <= times_[i] && times_[i] <= until) scoped.push_back(values_[i]);
      return scoped.empty() ? nan : mean(scoped);
    }
    const auto end = std::upper_bound(times_.begin(), times_.end(), until) - times_.begin();
    if (static_cast<std::size_t>(end) <= skipped_) return nan;
    const std::size_t count = static_cast<std::size_t>(end) - skipped_;
    // The means of prefixes do not change: reports are appended.
    while (means_.size() < count)
      means_.push_back(mean(std::span(values_).subspan(skipped_, means_.size() + 1)));
    return means_[count - 1];
  }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.times_, self.values_, self.best_, self.skipped_, self.ascending_);
    if constexpr (!std::is_const_v<Self>) self.means_.clear();
  }

 private:
  std::vector<double> times_, values_;
  std::vector<double> means_;  // means of the first 1, 2, … values after the grace period
  double best_ = 0;
  std::uint64_t skipped_ = 0;  // reports within the grace period, while times ascend
  bool ascending_ = true;
};

class MedianStoppingRule final : public TrialScheduler {
 public:
  explicit MedianStoppingRule(const MedianStoppingSettings& settings) : settings_(settings) {}

  Result<Decision> reported(const Report& report, SchedulerStep step) override {
    if (!is_complete(report)) return Decision::proceed;
    TrialHistory& own = history(report.trial);
    if (own.stopped) return Decision::proceed;
    const double time = *report.time;
    append(own, report);
    if (time < settings_.grace_period) return Decision::proceed;

    means_.clear();
    for (TrialHistory& other : trials_) {
      if (&other == &own || other.reports.empty() || !(other.reports.last_time() >= time)) continue;
      const double mean_value = other.reports.mean_until(settings_.grace_period, time);
      if (std::isfinite(mean_value)) means_.push_back(mean_value);
    }
    if (static_cast<std::int64_t>(means_.size()) < settings_.min_samples_required) {
      const bool waiting =
          step.trials.has(TrialState::pending) || step.trials.has(TrialState::paused);
      if (!waiting || !(time - own.last_pause > settings_.min_time_slice)) return Decision::proceed;
      own.last_pause = time;
      note(report, own, DecisionNote::Outcome::paused, {}, step);
      return Decision::pause;
    }
    const double middle = median(means_);
    const double best = own.reports.best();
    const bool better = settings_.mode == Mode::max ? best > middle : best < middle;
    if (better || middle == best) return Decision::proceed;
    own.stopped = true;
    const auto outcome =
        settings_.hard_stop ? DecisionNote::Outcome::stopped : DecisionNote::Outcome::paused;
    note(report, own, outcome, middle, step);
    return settings_.hard_stop ? Decision::stop : Decision::pause;
  }

  void completed(const Report& last, SchedulerStep /*step*/) override {
    // Ray appends the last report a second time, which changes later means.
    if (is_complete(last)) append(history(last.trial), last);
  }

  std::optional<TrialNumber> choose(SchedulerStep step) override {
    return choose_in_order(step.trials);
  }

  std::string save() const override { return save_state(*this); }
  Result<void> load(std::string_view state) override {
    return load_state(*this, state, "median stopping rule");
  }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.trials_);
  }

 private:
  struct TrialHistory {
    ReportHistory reports = {};
    double last_pause = -std::numeric_limits<double>::infinity();
    bool stopped = false;

    template <class Self, class Archive>
    static void fields(Self& self, Archive& archive) {
      archive(self.reports, self.last_pause, self.stopped);
    }
  };

  TrialHistory& history(TrialNumber trial) {
    const auto at = static_cast<std::size_t>(trial);
    if (at >= trials_.size()) trials_.resize(at + 1);
    return trials_[at];
  }
  void append(TrialHistory& own, const Report& report) const {
    own.reports.add(*report.time, *report.value, settings_.grace_period,
                    settings_.mode == Mode::max);
  }

  void note(const Report& report, const TrialHistory& own, DecisionNote::Outcome outcome,
            std::optional<double> cutoff, SchedulerStep step) const {
    step.trials.note({.trial = report.trial,
                      .rule = DecisionNote::Rule::median,
                      .outcome = outcome,
                      .milestone = report.time,
                      .value = own.reports.best(),
                      .cutoff = cutoff,
                      .compared = static_cast<std::int64_t>(means_.size())});
  }

  MedianStoppingSettings settings_;
  std::vector<TrialHistory> trials_;
  std::vector<double> means_;  // kept between calls for its memory
};

}  // namespace

Result<TrialSchedulerPtr> make_median_stopping(const MedianStoppingSettings& settings) {
  auto option = [](const char* name, double value) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("MedianStoppingOptions::{}: {}; pass a value of at least 0", name, value));
  };
  if (!(settings.grace_period >= 0)) return option("grace_period", settings.grace_period);
  if (!(settings.min_time_slice >= 0)) return option("min_time_slice", settings.min_time_slice);
  if (settings.min_samples_required < 0)
    return option("min_samples_required", static_cast<double>(settings.min_samples_required));
  return TrialSchedulerPtr(std::make_unique<MedianStoppingRule>(settings));
}

}  // namespace mobula::internal::tune
