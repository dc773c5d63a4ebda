#include "tune/core/stoppers/trial_stopper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>

#include "tune/core/numpy_arithmetic.h"
#include "tune/core/state_archive.h"

namespace mobula::internal::tune {
namespace {

// Stoppers without a state.
class StatelessStopper : public TrialStopper {
 public:
  std::string save() const override { return {}; }
  Result<void> load(std::string_view state) override {
    if (state.empty()) return {};
    return failure(ErrorCode::corrupt, "load stopper: state is not empty");
  }
};

class LimitStopper final : public StatelessStopper {
 public:
  explicit LimitStopper(std::vector<std::pair<std::string, double>> limits)
      : limits_(std::move(limits)) {}

  Result<bool> stops(TrialNumber trial, const Config& metrics) override {
    for (const auto& [name, limit] : limits_) {
      const Value* value = metrics.find(name);
      if (value == nullptr)
        return failure(ErrorCode::invalid_argument,
                       fmt::format("report of trial {}: no metric '{}', which RunOptions::stop "
                                   "limits; report it in every step",
                                   trial, name));
      if (value->is_text() || value->number() < limit || std::isnan(value->number())) continue;
      reason_ = fmt::format("{} {:.6g} reaches its limit {:.6g} of RunOptions::stop", name,
                            value->number(), limit);
      return true;
    }
    return false;
  }
  std::string reason() const override { return reason_; }

 private:
  std::vector<std::pair<std::string, double>> limits_;
  std::string reason_;
};

class IterationStopper final : public TrialStopper {
 public:
  explicit IterationStopper(std::int64_t most) : most_(most) {}
  Result<bool> stops(TrialNumber trial, const Config& /*metrics*/) override {
    return ++calls_[trial] >= most_;
  }
  std::string reason() const override {
    return fmt::format("MaximumIterationStopper allows {} reports", most_);
  }
  std::string save() const override { return save_state(*this); }
  Result<void> load(std::string_view state) override {
    return load_state(*this, state, "iteration stopper");
  }
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.calls_);
  }

 private:
  std::int64_t most_;
  std::map<TrialNumber, std::int64_t> calls_;
};

class TimeoutStopper final : public TrialStopper {
 public:
  explicit TimeoutStopper(double timeout_s) : budget_s_(timeout_s) {}
  Result<bool> stops(TrialNumber /*trial*/, const Config& /*metrics*/) override { return false; }
  bool stops_all(double now_s) override {
    // The first check begins the measurement, so that the start of the cluster does not count.
    if (last_check_s_) budget_s_ -= now_s - *last_check_s_;
    last_check_s_ = now_s;
    return budget_s_ <= 0;
  }
  void resumed() override { last_check_s_.reset(); }
  std::string save() const override { return save_state(*this); }
  Result<void> load(std::string_view state) override {
    return load_state(*this, state, "timeout stopper");
  }
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.budget_s_, self.last_check_s_);
  }

 private:
  double budget_s_;
  std::optional<double> last_check_s_;
};

double metric_or_nan(const Config& metrics, std::string_view name) {
  const Value* value = metrics.find(name);
  return value == nullptr || value->is_text() ? std::numeric_limits<double>::quiet_NaN()
                                              : value->number();
}

class TrialPlateauStopper final : public TrialStopper {
 public:
  explicit TrialPlateauStopper(TrialPlateauSettings settings) : settings_(std::move(settings)) {}

  Result<bool> stops(TrialNumber trial, const Config& metrics) override {
    History& own = trials_[trial];
    const double value = metric_or_nan(metrics, settings_.metric);
    own.values.push_back(value);
    if (own.values.size() > static_cast<std::size_t>(settings_.num_results)) own.values.pop_front();
    ++own.calls;
    if (own.calls < settings_.grace_period ||
        own.values.size() < static_cast<std::size_t>(settings_.num_results))
      return false;
    if (settings_.metric_threshold) {
      const double threshold = *settings_.metric_threshold;
      if (settings_.mode == Mode::min ? value > threshold : value < threshold) return false;
    }
    const std::vector<double> values(own.values.begin(), own.values.end());
    return population_deviation(values) < settings_.deviation;
  }
  std::string reason() const override {
    return fmt::format("TrialPlateauStopper: the last {} values of {} deviate by less than {:.6g}",
                       settings_.num_results, settings_.metric, settings_.deviation);
  }

  std::string save() const override { return save_state(*this); }
  Result<void> load(std::string_view state) override {
    return load_state(*this, state, "trial plateau stopper");
  }
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.trials_);
  }

 private:
  struct History {
    std::deque<double> values = {};  // the last num_results
    std::int64_t calls = 0;

    template <class Self, class Archive>
    static void fields(Self& self, Archive& archive) {
      archive(self.values, self.calls);
    }
  };

  TrialPlateauSettings settings_;
  std::map<TrialNumber, History> trials_;
};

class ExperimentPlateauStopper final : public TrialStopper {
 public:
  explicit ExperimentPlateauStopper(ExperimentPlateauSettings settings)
      : settings_(std::move(settings)) {}

  Result<bool> stops(TrialNumber trial, const Config& metrics) override {
    const double value = metric_or_nan(metrics, settings_.metric);
    if (std::isnan(value) && metrics.find(settings_.metric) == nullptr)
      return failure(ErrorCode::invalid_argument,
                     fmt::format("report of trial {}: no metric '{}', which "
                                 "ExperimentPlateauStopper needs; report it in every step",
                                 trial, settings_.metric));
    keep(value);
    iterations_ = plateau() ? iterations_ + 1 : 0;
    return stops_all(0);
  }
  bool stops_all(double /*now_s*/) override {
    return plateau() && iterations_ >= settings_.patience;
  }
  std::string reason() const override {
    return fmt::format(
        "ExperimentPlateauStopper: the best {} values of {} deviate by at most {:.6g}",
        settings_.top, settings_.metric, settings_.deviation);
  }

  std::string save() const override { return save_state(*this); }
  Result<void> load(std::string_view state) override {
    return load_state(*this, state, "experiment plateau stopper");
  }
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.best_, self.iterations_);
  }

 private:
  // The best values, in ascending order. NaN is the worst; Ray leaves its place open.
  void keep(double value) {
    if (std::isnan(value)) return;
    best_.insert(std::upper_bound(best_.begin(), best_.end(), value), value);
    if (best_.size() <= static_cast<std::size_t>(settings_.top)) return;
    if (settings_.mode == Mode::min)
      best_.pop_back();
    else
      best_.erase(best_.begin());
  }
  bool plateau() const {
    return best_.size() == static_cast<std::size_t>(settings_.top) &&
           population_deviation(best_) <= settings_.deviation;
  }

  ExperimentPlateauSettings settings_;
  std::vector<double> best_;
  std::int64_t iterations_ = 0;
};

class FunctionStopper final : public StatelessStopper {
 public:
  explicit FunctionStopper(std::function<bool(TrialNumber, const Config&)> stops)
      : stops_(std::move(stops)) {}
  Result<bool> stops(TrialNumber trial, const Config& metrics) override {
    return stops_(trial, metrics);
  }
  std::string reason() const override { return "FunctionStopper returned true"; }

 private:
  std::function<bool(TrialNumber, const Config&)> stops_;
};

class CombinedStopper final : public TrialStopper {
 public:
  explicit CombinedStopper(std::vector<TrialStopperPtr> stoppers)
      : stoppers_(std::move(stoppers)) {}

  Result<bool> stops(TrialNumber trial, const Config& metrics) override {
    for (const TrialStopperPtr& stopper : stoppers_) {
      Result<bool> stopped = stopper->stops(trial, metrics);
      if (stopped && *stopped) reason_ = stopper->reason();
      if (!stopped || *stopped) return stopped;
    }
    return false;
  }
  std::string reason() const override { return reason_; }
  bool stops_all(double now_s) override {
    return std::any_of(stoppers_.begin(), stoppers_.end(),
                       [&](const TrialStopperPtr& stopper) { return stopper->stops_all(now_s); });
  }
  void resumed() override {
    for (const TrialStopperPtr& stopper : stoppers_) stopper->resumed();
  }

  std::string save() const override {
    std::vector<std::string> states;
    for (const TrialStopperPtr& stopper : stoppers_) states.push_back(stopper->save());
    StateWriter writer;
    writer(states);
    return writer.take();
  }
  Result<void> load(std::string_view state) override {
    StateReader reader(state);
    std::vector<std::string> states;
    reader(states);
    if (!reader.finished() || states.size() != stoppers_.size())
      return failure(ErrorCode::corrupt, "load combined stopper: malformed state");
    for (std::size_t i = 0; i < states.size(); ++i)
      if (Result<void> loaded = stoppers_[i]->load(states[i]); !loaded) return loaded;
    return {};
  }

 private:
  std::vector<TrialStopperPtr> stoppers_;
  std::string reason_;
};

Failure stopper_option(const char* name, double value, const char* advice) {
  return failure(ErrorCode::invalid_argument, fmt::format("{}: {}; {}", name, value, advice));
}

}  // namespace

TrialStopperPtr make_limit_stopper(std::vector<std::pair<std::string, double>> limits) {
  return std::make_unique<LimitStopper>(std::move(limits));
}

Result<TrialStopperPtr> make_iteration_stopper(std::int64_t max_iterations) {
  if (max_iterations < 1)
    return stopper_option("MaximumIterationStopper", static_cast<double>(max_iterations),
                          "pass at least 1 iteration");
  return TrialStopperPtr(std::make_unique<IterationStopper>(max_iterations));
}

TrialStopperPtr make_timeout_stopper(double timeout_s) {
  return std::make_unique<TimeoutStopper>(timeout_s);
}

Result<TrialStopperPtr> make_trial_plateau_stopper(const TrialPlateauSettings& settings) {
  if (settings.num_results < 1)
    return stopper_option("TrialPlateauOptions::num_results", settings.num_results,
                          "pass at least 1");
  return TrialStopperPtr(std::make_unique<TrialPlateauStopper>(settings));
}

Result<TrialStopperPtr> make_experiment_plateau_stopper(const ExperimentPlateauSettings& settings) {
  if (settings.top < 2)
    return stopper_option("ExperimentPlateauOptions::top", settings.top, "pass at least 2");
  if (settings.patience < 0)
    return stopper_option("ExperimentPlateauOptions::patience", settings.patience,
                          "pass at least 0");
  if (!(settings.deviation > 0))
    return stopper_option("ExperimentPlateauOptions::std", settings.deviation,
                          "pass a value above 0");
  return TrialStopperPtr(std::make_unique<ExperimentPlateauStopper>(settings));
}

TrialStopperPtr make_function_stopper(std::function<bool(TrialNumber, const Config&)> stops) {
  return std::make_unique<FunctionStopper>(std::move(stops));
}

TrialStopperPtr make_combined_stopper(std::vector<TrialStopperPtr> stoppers) {
  return std::make_unique<CombinedStopper>(std::move(stoppers));
}

}  // namespace mobula::internal::tune
