#include "tune/core/schedulers/population_bandit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include "tune/core/numpy_arithmetic.h"
#include "tune/core/schedulers/population_training.h"
#include "tune/core/searchers/box_minimizer.h"
#include "tune/core/state_archive.h"

namespace mobula::internal::tune {
namespace {

using BanditRow = std::vector<double>;  // time, score before, parameters; in [0, 1]

constexpr std::size_t max_changes = 300;
constexpr double bandit_noise = 1e-10;

// Kernel: variance · exp(−d² / length) · (1 − ε)^(|Δt| / 2), with d over all inputs but the time.
class TimeVaryingProcess {
 public:
  void fit(std::vector<BanditRow> rows, std::vector<double> targets) {
    rows_ = std::move(rows);
    targets_ = std::move(targets);
    const std::vector<BoxBounds> bounds{
        {std::log(1e-5), std::log(1e5)}, {std::log(1e-5), std::log(1e5)}, {1e-5, 0.5}};
    const auto loss = [&](std::span<const double> raw) {
      take(raw);
      const double likelihood = factorize();
      return std::isfinite(likelihood) ? -likelihood : 1e12;
    };
    const BoxMinimum found = minimize_in_box(loss, {0, 0, 0.1}, bounds, 30);
    take(found.point);
    // Equal rows are numerically dependent; a larger noise separates them.
    for (noise_ = bandit_noise; !std::isfinite(factorize()); noise_ *= 100) continue;
  }

  struct Prediction {
    double mean, variance;
  };
  Prediction predict(const BanditRow& row) const {
    const std::size_t n = rows_.size();
    std::vector<double> covariance(n);
    double mean = 0;
    double variance = variance_;
    for (std::size_t i = 0; i < n; ++i) covariance[i] = kernel(row, rows_[i]);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < i; ++k) covariance[i] -= factor_[i * n + k] * covariance[k];
      covariance[i] /= factor_[i * n + i];
      mean += covariance[i] * solved_[i];
      variance -= covariance[i] * covariance[i];
    }
    return {mean, std::max(variance, 0.0)};
  }

 private:
  void take(std::span<const double> raw) {
    variance_ = std::exp(raw[0]);
    length_ = std::exp(raw[1]);
    epsilon_ = raw[2];
  }

  double kernel(const BanditRow& a, const BanditRow& b) const {
    double square = 0;
    for (std::size_t i = 1; i < a.size(); ++i) square += (a[i] - b[i]) * (a[i] - b[i]);
    return variance_ * std::exp(-square / length_) *
           std::pow(1 - epsilon_, 0.5 * std::abs(a[0] - b[0]));
  }

  // Logarithm of the marginal likelihood, without its constant.
  double factorize() {
    const std::size_t n = rows_.size();
    factor_.assign(n * n, 0);
    solved_ = targets_;
    double likelihood = 0;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double value = kernel(rows_[i], rows_[j]) + (i == j ? noise_ : 0);
        for (std::size_t k = 0; k < j; ++k) value -= factor_[i * n + k] * factor_[j * n + k];
        if (i == j && !(value > 0)) return -std::numeric_limits<double>::infinity();
        factor_[i * n + j] = i == j ? std::sqrt(value) : value / factor_[j * n + j];
      }
      for (std::size_t k = 0; k < i; ++k) solved_[i] -= factor_[i * n + k] * solved_[k];
      solved_[i] /= factor_[i * n + i];
      likelihood -= std::log(factor_[i * n + i]) + 0.5 * solved_[i] * solved_[i];
    }
    return likelihood;
  }

  std::vector<BanditRow> rows_;
  std::vector<double> targets_, factor_, solved_;
  double variance_ = 1, length_ = 1, epsilon_ = 0.1, noise_ = bandit_noise;
};

struct StoredScore {
  TrialNumber trial = 0;
  double time = 0;
  std::vector<double> values = {};  // values of the bounded parameters
  double score = 0;

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.trial, self.time, self.values, self.score);
  }
};

// A change of the score between two results of a trial with equal parameters.
struct ScoreChange {
  TrialNumber trial = 0;
  double time = 0, score_before = 0, score = 0, rate = 0;
  std::vector<double> values = {};
};

class BanditModel final : public ExploreModel {
 public:
  explicit BanditModel(const Pb2Settings& settings) : bounds_(settings.bounds) {}

  void record(TrialNumber trial, double time, double score, const Config& config) override {
    StoredScore row{.trial = trial, .time = time, .score = score};
    for (const auto& bound : bounds_) row.values.push_back(config.get(bound.first).number());
    rows_.push_back(std::move(row));
    // Each change needs its predecessor, so more rows than changes stay.
    constexpr std::size_t max_rows = 4 * max_changes;
    if (rows_.size() > max_rows) rows_.erase(rows_.begin());
  }

  Config suggest(TrialNumber recipient, TrialNumber donor, const Config& donor_config,
                 NumpyRandom& random) override {
    Config config = donor_config;
    const double latest = latest_time();
    // Points of an earlier round have results by now.
    if (latest > explored_time_) current_.clear();
    const auto changes = score_changes();
    const auto own = std::find_if(changes.rbegin(), changes.rend(),
                                  [&](const auto& each) { return each.trial == donor; });
    std::vector<double> chosen;
    if (own != changes.rend()) {
      chosen = choose_values(changes, *own, random);
      for (std::size_t i = 0; i < bounds_.size(); ++i) {
        const std::string& name = bounds_[i].first;
        if (donor_config.get(name).is_integer())
          config.set(name, static_cast<std::int64_t>(chosen[i]));
        else
          config.set(name, chosen[i]);
        chosen[i] = config.get(name).number();
      }
      // The recipient continues from the donor's score.
      rows_.push_back({recipient, own->time, chosen, own->score});
    } else {
      for (const auto& bound : bounds_) chosen.push_back(config.get(bound.first).number());
    }
    explored_time_ = std::max(explored_time_, latest);
    current_.push_back(std::move(chosen));
    return config;
  }

  std::string save() const override { return save_state(*this); }
  Result<void> load(std::string_view state) override {
    return load_state(*this, state, "PB2 model");
  }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.rows_, self.current_, self.explored_time_);
  }

 private:
  double latest_time() const {
    double latest = 0;
    for (const auto& row : rows_) latest = std::max(latest, row.time);
    return latest;
  }

  // In the order of time.
  std::vector<ScoreChange> score_changes() const {
    std::vector<StoredScore> sorted = rows_;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.time < b.time; });
    std::map<std::pair<TrialNumber, std::vector<double>>, const StoredScore*> before;
    std::vector<ScoreChange> changes;
    for (const auto& row : sorted) {
      const StoredScore*& last = before[{row.trial, row.values}];
      if (last != nullptr && row.time > last->time) {
        const double rate = (row.score - last->score) / (row.time - last->time);
        // A result that is not a number teaches nothing.
        if (std::isfinite(rate)) {
          changes.push_back({row.trial, row.time, last->score, row.score, rate, row.values});
        }
      }
      last = &row;
    }
    if (changes.size() > max_changes) {
      changes.erase(changes.begin(), changes.end() - static_cast<std::ptrdiff_t>(max_changes));
    }
    return changes;
  }

  double unit_value(std::size_t parameter, double value) const {
    const auto& [low, high] = bounds_[parameter].second;
    return (value - low) / (high - low + 1e-8);
  }

  std::vector<double> choose_values(const std::vector<ScoreChange>& changes,
                                    const ScoreChange& donor, NumpyRandom& random) const {
    double first = donor.time;
    double last = donor.time;
    double least = donor.score_before;
    double most = donor.score_before;
    std::vector<double> rates;
    for (const auto& each : changes) {
      first = std::min(first, each.time);
      last = std::max(last, each.time);
      least = std::min(least, each.score_before);
      most = std::max(most, each.score_before);
      rates.push_back(each.rate);
    }
    const auto row_of = [&](double time, double score, const std::vector<double>& values) {
      BanditRow row{(time - first) / (last - first + 1e-8),
                    (score - least) / (most - least + 1e-8)};
      for (std::size_t i = 0; i < values.size(); ++i) row.push_back(unit_value(i, values[i]));
      return row;
    };
    std::vector<BanditRow> rows;
    for (const auto& each : changes)
      rows.push_back(row_of(each.time, each.score_before, each.values));
    const double center = mean(rates);
    const double deviation = population_deviation(rates) + 1e-8;
    for (double& rate : rates) rate = std::clamp((rate - center) / deviation, -2.0, 2.0);
    TimeVaryingProcess process;
    process.fit(rows, rates);
    TimeVaryingProcess with_current = process;
    if (!current_.empty()) {
      for (const auto& values : current_) {
        rows.push_back(row_of(donor.time, donor.score_before, values));
        rates.push_back(0);
      }
      with_current.fit(rows, rates);
    }
    return maximize(process, with_current, row_of(donor.time, donor.score_before, {}),
                    changes.size(), random);
  }

  // Mean of the first process and variance of the second, over 10 starts.
  std::vector<double> maximize(const TimeVaryingProcess& process,
                               const TimeVaryingProcess& with_current, const BanditRow& fixed,
                               std::size_t count, NumpyRandom& random) const {
    const double kappa = std::sqrt(0.2 + std::max(0.0, std::log(0.4 * static_cast<double>(count))));
    const auto loss = [&](std::span<const double> point) {
      BanditRow row = fixed;
      row.insert(row.end(), point.begin(), point.end());
      return -process.predict(row).mean - kappa * with_current.predict(row).variance;
    };
    const std::vector<BoxBounds> box(bounds_.size(), {0, 1});
    BoxMinimum best;
    constexpr int starts = 10;
    for (int i = 0; i < starts; ++i) {
      std::vector<double> start;
      for (std::size_t p = 0; p < bounds_.size(); ++p) start.push_back(random.unit());
      const BoxMinimum found = minimize_in_box(loss, start, box, 50);
      if (best.point.empty() || found.value < best.value) best = found;
    }
    std::vector<double> values;
    for (std::size_t p = 0; p < bounds_.size(); ++p) {
      const auto& [low, high] = bounds_[p].second;
      const double value = std::clamp(best.point[p], 0.0, 1.0) * (high - low) + low;
      values.push_back(std::clamp(static_cast<double>(static_cast<float>(value)), low, high));
    }
    return values;
  }

  std::vector<std::pair<std::string, std::pair<double, double>>> bounds_;
  std::vector<StoredScore> rows_;
  std::vector<std::vector<double>> current_;  // suggested values since the last new time
  double explored_time_ = 0;
};

Failure bandit_option(const std::string& text) {
  return failure(ErrorCode::invalid_argument, "Pb2Options::" + text);
}

}  // namespace

std::unique_ptr<ExploreModel> make_bandit_model(const Pb2Settings& settings) {
  return std::make_unique<BanditModel>(settings);
}

Result<TrialSchedulerPtr> make_population_bandit(const Pb2Settings& settings) {
  if (settings.bounds.empty()) {
    return bandit_option("hyperparam_bounds: empty; pass at least one parameter");
  }
  PopulationSettings population{.mode = settings.mode,
                                .perturbation_interval = settings.perturbation_interval,
                                .quantile_fraction = settings.quantile_fraction,
                                .synch = settings.synch};
  population.explore.resample_probability = 0;
  for (const auto& [name, range] : settings.bounds) {
    if (!(range.first < range.second) || !std::isfinite(range.second - range.first)) {
      return bandit_option(
          fmt::format("hyperparam_bounds: '{}' has the bounds {} and {}; pass low "
                      "below high",
                      name, range.first, range.second));
    }
    population.explore.mutations.add(name, uniform(range.first, range.second));
  }
  return make_population_training(std::move(population), make_bandit_model(settings));
}

}  // namespace mobula::internal::tune
