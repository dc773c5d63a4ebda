#include "tune/core/searchers/gaussian/bayes_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "tune/core/numpy_arithmetic.h"
#include "tune/core/searchers/box_minimizer.h"
#include "tune/core/state_archive.h"

namespace mobula::internal::tune {
namespace {

constexpr int warmup_points = 10'000;
constexpr int local_searches = 10;
constexpr double live_share = 0.02;  // around running trials, as a part of each range

double normal_density(double z) { return std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi); }
double normal_distribution(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

}  // namespace

BayesSearch::BayesSearch(const BayesSettings& settings, const SearchSpace& space)
    : settings_(settings), space_(space) {
  for (std::size_t i = 0; i < space_.parameters().size(); ++i)
    if (!space_.parameters()[i].constant) sorted_.push_back(i);
  std::sort(sorted_.begin(), sorted_.end(), [&](std::size_t a, std::size_t b) {
    return space_.parameters()[a].name < space_.parameters()[b].name;
  });
}

Result<std::unique_ptr<BayesSearch>> BayesSearch::make(const BayesSettings& settings,
                                                       const SearchSpace& space) {
  auto fault = [](std::string text) {
    return failure(ErrorCode::invalid_argument, std::move(text));
  };
  if (settings.patience < 1)
    return fault(fmt::format("BayesOptOptions::patience: {}; pass at least 1", settings.patience));
  if (settings.random_search_steps < 1)
    return fault(fmt::format("BayesOptOptions::random_search_steps: {}; pass at least 1",
                             settings.random_search_steps));
  if (settings.repeat_float_precision < 0 || settings.repeat_float_precision > 17)
    return fault(fmt::format("BayesOptOptions::repeat_float_precision: {}; pass 0 to 17",
                             settings.repeat_float_precision));
  bool variable = false;
  for (const auto& parameter : space.parameters()) {
    if (parameter.constant) continue;
    variable = true;
    if (parameter.dimension.kind != Dimension::Kind::real || parameter.dimension.step != 0 ||
        parameter.condition)
      return fault(
          fmt::format("parameter '{}': BayesOptSearch takes unconditional ranges of "
                      "numbers without steps; use TPESearch",
                      parameter.name));
  }
  if (!variable) return fault("BayesOptSearch: the space has no parameters; pass at least one");
  return std::unique_ptr<BayesSearch>(new BayesSearch(settings, space));
}

BayesSearch::Point BayesSearch::random_point(NumpyRandom& random) const {
  Point point;
  for (const std::size_t i : sorted_) {
    const Dimension& dimension = space_.parameters()[i].dimension;
    point.push_back(random.uniform(dimension.low, dimension.high));
  }
  return point;
}

double BayesSearch::acquisition(const MaternProcess& process, double best,
                                std::span<const double> x) const {
  const auto [mean, deviation] = process.predict(x);
  if (settings_.kind == BayesSettings::Kind::ucb) return mean + settings_.kappa * deviation;
  const double gain = mean - best - settings_.xi;
  if (!(deviation > 0))
    return settings_.kind == BayesSettings::Kind::ei ? std::max(gain, 0.0) : (gain > 0 ? 1 : 0);
  const double z = gain / deviation;
  if (settings_.kind == BayesSettings::Kind::poi) return normal_distribution(z);
  return gain * normal_distribution(z) + deviation * normal_density(z);
}

// Running trials count as results at their means, with the same length scale.
MaternProcess BayesSearch::fitted_process() const {
  MaternProcess process;
  process.fit(points_, targets_);
  if (live_.empty()) return process;
  std::vector<Point> points = points_;
  std::vector<double> targets = targets_;
  for (const auto& [trial, point] : live_) {
    points.push_back(point);
    targets.push_back(process.predict(point).mean);
  }
  process.fit(points, targets, process.length_scale());
  return process;
}

// Penalizes points next to running trials by about the deviation of the results.
double BayesSearch::live_penalty(std::span<const double> x) const {
  if (live_.empty()) return 0;
  const bool is_probability = settings_.kind == BayesSettings::Kind::poi;
  const double most = is_probability ? 1 : std::max(population_deviation(targets_), 1e-12);
  double penalty = 0;
  for (const auto& [trial, live] : live_) {
    double square = 0;
    for (std::size_t d = 0; d < x.size(); ++d) {
      const Dimension& dimension = space_.parameters()[sorted_[d]].dimension;
      const double difference = (x[d] - live[d]) / (dimension.high - dimension.low);
      square += difference * difference;
    }
    penalty += most * std::exp(-square / (2 * live_share * live_share));
  }
  return penalty;
}

BayesSearch::Point BayesSearch::best_point(NumpyRandom& random) const {
  const MaternProcess process = fitted_process();
  const double best = *std::max_element(targets_.begin(), targets_.end());
  std::vector<BoxBounds> bounds;
  for (const std::size_t i : sorted_) {
    const Dimension& dimension = space_.parameters()[i].dimension;
    bounds.push_back({dimension.low, dimension.high});
  }
  Point chosen;
  double most = 0;
  for (int i = 0; i < warmup_points; ++i) {
    Point point = random_point(random);
    const double value = acquisition(process, best, point) - live_penalty(point);
    if (!chosen.empty() && !(value > most)) continue;
    most = value;
    chosen = std::move(point);
  }
  for (int i = 0; i < local_searches; ++i) {
    const BoxMinimum found = minimize_in_box(
        [&](std::span<const double> x) { return live_penalty(x) - acquisition(process, best, x); },
        random_point(random), bounds);
    // The later of equal maxima wins.
    if (-found.value < most) continue;
    most = -found.value;
    chosen = found.point;
  }
  return chosen;
}

std::string BayesSearch::key_of(const Point& point) const {
  std::string key;
  for (const double value : point)
    key += fmt::format("{:.{}f},", value, settings_.repeat_float_precision);
  return key;
}

Result<Suggestion> BayesSearch::ask(TrialNumber trial, SearchRandom random) {
  if (finished_) return Suggestion{.kind = Suggestion::Kind::finished};
  if (random_phase() && begun_ == settings_.random_search_steps)
    return Suggestion{.kind = Suggestion::Kind::later};
  // Ray suggests the point of a running trial again, and its patience ends while trials run. Here
  // running trials change the model; a point that still repeats waits for the next result.
  if (awaits_result_ && !live_.empty()) return Suggestion{.kind = Suggestion::Kind::later};
  // The random points of bayesian-optimization have a generator of the same seed.
  const Point point =
      random_phase() || points_.empty() ? random_point(random.startup) : best_point(random.model);
  const std::int64_t count = ++suggestions_[key_of(point)];
  if (count > settings_.patience) {
    finished_ = true;
    return Suggestion{.kind = Suggestion::Kind::finished};
  }
  if (count > 1 && settings_.skip_duplicate) {
    awaits_result_ = true;
    return Suggestion{.kind = Suggestion::Kind::later};
  }
  if (random_phase()) ++begun_;
  live_[trial] = point;
  Suggestion suggestion{.kind = Suggestion::Kind::config};
  std::size_t next = 0;
  for (const std::size_t i : sorted_)
    suggestion.config.set(space_.parameters()[i].name, point[next++]);
  for (const auto& parameter : space_.parameters())
    if (parameter.constant)
      suggestion.config.set(parameter.name, parameter.dimension.choices.front());
  return suggestion;
}

void BayesSearch::tell(TrialNumber trial, const TrialEnd& end) {
  const auto found = live_.find(trial);
  if (found == live_.end()) return;
  const Point point = std::move(found->second);
  live_.erase(found);
  awaits_result_ = false;
  // Ray waits for completed trials alone, and a failed one then blocks the search for good.
  if (random_phase()) ++ended_;
  if (end.state == EndState::failed || !end.value || !std::isfinite(*end.value)) return;
  points_.push_back(point);
  targets_.push_back(sign_of(settings_.mode) * *end.value);
}

// The random phase ends without the results of paused trials.
void BayesSearch::stalled() {
  ended_ = std::max(ended_, begun_);
  awaits_result_ = false;
}

std::string BayesSearch::save() const { return save_state(*this); }

Result<void> BayesSearch::load(std::string_view state) {
  return load_state(*this, state, "BayesOpt searcher");
}

}  // namespace mobula::internal::tune
