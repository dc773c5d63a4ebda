#include "tune/core/searchers/gaussian/gp_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tune/core/numpy_arithmetic.h"
#include "tune/core/searchers/box_minimizer.h"
#include "tune/core/searchers/sobol/sobol_sequence.h"
#include "tune/core/state_archive.h"

namespace mobula::internal::tune {
namespace {

constexpr std::size_t candidate_points = 1024;
constexpr std::size_t starts_per_search = 6;
constexpr std::size_t max_grid = 32;           // values of a parameter that are tried one by one
constexpr std::size_t objective_samples = 48;  // samples of the expected hypervolume improvement
constexpr double least_gain = 1e-4;
constexpr double live_radius = 0.02;  // around running trials, in the unit cube

struct Standardized {
  std::vector<double> values;
  double mean = 0, deviation = 1;
};

Standardized standardized(std::vector<double> values) {
  // Infinite values become the worst and best finite ones.
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  for (double& value : values) value = low > high ? 0 : std::clamp(value, low, high);
  Standardized result{values, mean(values), population_deviation(values)};
  if (!(result.deviation > 1e-12)) result.deviation = 1;
  for (double& value : result.values) value = (value - result.mean) / result.deviation;
  return result;
}

}  // namespace

bool GpSearch::TrialPoint::feasible() const {
  return std::all_of(constraints.begin(), constraints.end(), [](double c) { return c <= 0; });
}

// Standardized objectives and constraints of one fit.
struct GpSearch::Model {
  std::vector<ArdProcess> objectives = {};
  std::vector<ArdProcess> constraints = {};
  std::vector<double> limits = {};  // standardized zero of the negated constraints
  double threshold = 0;             // best feasible score of one objective
  bool has_threshold = false;
  std::vector<ObjectivePoint> front = {};
  ObjectivePoint reference = {};
  std::vector<ObjectivePoint> samples = {};  // standard normal
  std::vector<Point> starts = {};            // the best past points
};

GpSearch::GpSearch(const GpSettings& settings, const SearchSpace& space,
                   std::vector<std::size_t> sorted)
    : settings_(settings), space_(space), sorted_(std::move(sorted)) {}

Result<std::unique_ptr<GpSearch>> GpSearch::make(const GpSettings& settings,
                                                 const SearchSpace& space) {
  if (settings.n_startup_trials < 1) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("GpOptions::n_startup_trials: {}; pass at least 1", settings.n_startup_trials));
  }
  if (settings.modes.empty()) {
    return failure(ErrorCode::invalid_argument, "GPSearch: no objective; pass at least one");
  }
  if (space.empty()) {
    return failure(ErrorCode::invalid_argument,
                   "GPSearch: the space has no parameters; pass at least one");
  }
  std::vector<std::size_t> sorted;
  for (std::size_t i = 0; i < space.parameters().size(); ++i) {
    const auto& parameter = space.parameters()[i];
    if (!parameter.constant && !parameter.dimension.single()) sorted.push_back(i);
  }
  std::sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) {
    return space.parameters()[a].name < space.parameters()[b].name;
  });
  return std::unique_ptr<GpSearch>(new GpSearch(settings, space, std::move(sorted)));
}

// ---- points

double GpSearch::value_at(const Point& point, std::size_t parameter) const {
  const Dimension& own = dimension(parameter);
  if (own.is_category()) {
    const auto count = static_cast<double>(own.choices.size());
    return std::clamp(std::floor(point[parameter] * count), 0.0, count - 1);
  }
  const double low = own.model_low();
  return own.from_model(low + point[parameter] * (own.model_high() - low));
}

GpSearch::Point GpSearch::rounded(Point point) const {
  for (std::size_t p = 0; p < sorted_.size(); ++p) {
    const Dimension& own = dimension(p);
    const double value = value_at(point, p);
    if (own.is_category()) {
      point[p] = (value + 0.5) / static_cast<double>(own.choices.size());
    } else {
      const double low = own.model_low();
      point[p] = (own.to_model(value) - low) / (own.model_high() - low);
    }
  }
  return point;
}

std::vector<double> GpSearch::grid_of(std::size_t parameter) const {
  const Dimension& own = dimension(parameter);
  std::vector<double> grid;
  double count = 0;
  if (own.is_category()) count = static_cast<double>(own.choices.size());
  if (!own.is_category() && own.step != 0)
    count = std::floor((own.high - own.low) / own.step + 1.5);
  if (count == 0 || count > static_cast<double>(max_grid)) return grid;
  for (double i = 0; i < count; ++i) {
    if (own.is_category()) {
      grid.push_back((i + 0.5) / count);
    } else {
      const double low = own.model_low();
      const double at = own.to_model(std::min(own.high, own.low + i * own.step));
      grid.push_back((at - low) / (own.model_high() - low));
    }
  }
  return grid;
}

GpSearch::Point GpSearch::random_point(NumpyRandom& random) const {
  Point point;
  for (std::size_t p = 0; p < sorted_.size(); ++p) point.push_back(random.unit());
  return rounded(std::move(point));
}

// ---- the model

std::vector<GpSearch::TrialPoint> GpSearch::model_trials() const {
  if (results_.size() <= max_model_trials) return results_;
  const std::size_t best_count = max_model_trials / 4;
  std::vector<std::size_t> order(results_.size() - (max_model_trials - best_count));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return results_[a].scores.front() > results_[b].scores.front();
  });
  std::vector<TrialPoint> chosen;
  for (std::size_t i = 0; i < best_count; ++i) chosen.push_back(results_[order[i]]);
  chosen.insert(chosen.end(),
                results_.end() - static_cast<std::ptrdiff_t>(max_model_trials - best_count),
                results_.end());
  return chosen;
}

ArdProcess GpSearch::fit_process(const std::vector<TrialPoint>& trials,
                                 const std::vector<double>& values,
                                 std::vector<ArdProcess::RawParameters>& raw_parameters) const {
  std::vector<Point> points;
  for (const auto& each : trials) points.push_back(each.point);
  std::vector<bool> categories;
  for (std::size_t p = 0; p < sorted_.size(); ++p) categories.push_back(dimension(p).is_category());
  const std::size_t at = raw_parameters.size();
  ArdProcess process(categories);
  process.fit(points, values,
              at < raw_parameters_.size() ? raw_parameters_[at] : ArdProcess::RawParameters(),
              settings_.deterministic_objective);
  raw_parameters.push_back(process.raw_parameters());
  for (const auto& [trial, point] : live_) process.believe(point);
  return process;
}

GpSearch::Model GpSearch::fit_model(NumpyRandom& random) {
  const auto trials = model_trials();
  std::vector<ArdProcess::RawParameters> raw_parameters;
  Model model;
  std::vector<ObjectivePoint> scores(trials.size());
  for (std::size_t k = 0; k < settings_.modes.size(); ++k) {
    std::vector<double> values;
    for (const auto& each : trials) values.push_back(each.scores[k]);
    const Standardized standard = standardized(std::move(values));
    for (std::size_t i = 0; i < trials.size(); ++i) scores[i].push_back(standard.values[i]);
    model.objectives.push_back(fit_process(trials, standard.values, raw_parameters));
  }
  std::size_t constraint_count = trials.front().constraints.size();
  for (const auto& each : trials) {
    constraint_count = std::min(constraint_count, each.constraints.size());
  }
  for (std::size_t c = 0; c < constraint_count; ++c) {
    std::vector<double> values;
    for (const auto& each : trials) values.push_back(-each.constraints[c]);
    const Standardized standard = standardized(std::move(values));
    model.limits.push_back(-standard.mean / standard.deviation);
    model.constraints.push_back(fit_process(trials, standard.values, raw_parameters));
  }
  raw_parameters_ = std::move(raw_parameters);
  add_front(model, trials, scores);
  if (settings_.modes.size() == 1) return model;
  for (std::size_t i = 0; i < objective_samples; ++i) {
    ObjectivePoint sample;
    for (std::size_t k = 0; k < settings_.modes.size(); ++k) sample.push_back(random.gauss());
    model.samples.push_back(std::move(sample));
  }
  return model;
}

void GpSearch::add_front(Model& model, const std::vector<TrialPoint>& trials,
                         const std::vector<ObjectivePoint>& scores) const {
  std::vector<ObjectivePoint> feasible;
  model.reference.assign(settings_.modes.size(), 0);
  for (std::size_t i = 0; i < trials.size(); ++i) {
    for (std::size_t k = 0; k < scores[i].size(); ++k) {
      model.reference[k] = std::min(model.reference[k], scores[i][k]);
    }
    if (model.constraints.empty() || trials[i].feasible()) feasible.push_back(scores[i]);
  }
  for (double& each : model.reference) each -= 0.1 * std::abs(each);
  model.has_threshold = !feasible.empty();
  model.front = pareto_front(feasible);
  if (model.has_threshold) model.threshold = model.front.front()[0];
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const bool is_best =
        std::find(model.front.begin(), model.front.end(), scores[i]) != model.front.end();
    if (is_best && model.starts.size() < starts_per_search) {
      model.starts.push_back(trials[i].point);
    }
  }
}

// Penalizes points next to running trials, so that suggestions at one time differ also where the
// noise hides the effect of another result. 0 without running trials.
double GpSearch::live_penalty(const Point& point) const {
  double penalty = 0;
  constexpr double least = 1e-12;
  for (const auto& [trial, live] : live_) {
    double square = 0;
    for (std::size_t p = 0; p < point.size(); ++p) {
      const double difference = point[p] - live[p];
      square += dimension(p).is_category() ? (difference == 0 ? 0 : 1) : difference * difference;
    }
    penalty += std::log(least - std::expm1(-square / (2 * live_radius * live_radius)));
  }
  return penalty;
}

double GpSearch::acquisition(const Model& model, const Point& point) const {
  double value = live_penalty(point);
  for (std::size_t c = 0; c < model.constraints.size(); ++c) {
    const auto predicted = model.constraints[c].predict(point);
    value += log_probability_above(predicted.mean, predicted.variance, model.limits[c]);
  }
  // Without a feasible trial, only the feasibility counts.
  if (!model.has_threshold) return value;
  if (model.objectives.size() == 1) {
    const auto predicted = model.objectives.front().predict(point);
    return value + log_expected_improvement(predicted.mean, predicted.variance, model.threshold);
  }
  std::vector<ArdProcess::Prediction> predictions;
  for (const auto& each : model.objectives) predictions.push_back(each.predict(point));
  double sum = 0;
  ObjectivePoint outcome(predictions.size());
  for (const auto& sample : model.samples) {
    for (std::size_t k = 0; k < outcome.size(); ++k) {
      outcome[k] = predictions[k].mean + std::sqrt(predictions[k].variance) * sample[k];
    }
    sum += hypervolume_improvement(outcome, model.front, model.reference);
  }
  constexpr double least = 1e-12;
  return value + std::log(sum / static_cast<double>(model.samples.size()) + least);
}

// ---- maximization

// Tries all values of each parameter with few values.
bool GpSearch::climb_discrete(const Model& model, Point& point, double& value) const {
  bool improved = false;
  for (std::size_t p = 0; p < sorted_.size(); ++p) {
    for (const double coordinate : grid_of(p)) {
      Point other = point;
      other[p] = coordinate;
      const double reached = acquisition(model, other);
      if (reached <= value + least_gain) continue;
      value = reached;
      point = std::move(other);
      improved = true;
    }
  }
  return improved;
}

GpSearch::Point GpSearch::climb(const Model& model, Point start) const {
  std::vector<BoxBounds> bounds;
  for (std::size_t p = 0; p < sorted_.size(); ++p) {
    const bool fixed = !grid_of(p).empty();
    bounds.push_back(fixed ? BoxBounds{start[p], start[p]} : BoxBounds{0, 1});
  }
  double value = acquisition(model, start);
  constexpr int max_rounds = 4;
  for (int round = 0; round < max_rounds; ++round) {
    for (std::size_t p = 0; p < sorted_.size(); ++p) {
      if (bounds[p].low == bounds[p].high) bounds[p] = {start[p], start[p]};
    }
    const auto loss = [&](std::span<const double> at) {
      return -acquisition(model, Point(at.begin(), at.end()));
    };
    const BoxMinimum found = minimize_in_box(loss, start, bounds, 20);
    const bool moved = -found.value > value + least_gain;
    if (moved) {
      value = -found.value;
      start = found.point;
    }
    if (!climb_discrete(model, start, value)) break;
  }
  return start;
}

GpSearch::Point GpSearch::best_point(const Model& model, NumpyRandom& random) const {
  const std::size_t dimensions = sorted_.size();
  const bool has_sequence = dimensions <= SobolSequence::max_dimensions;
  const SobolSequence sequence(has_sequence ? dimensions : 1);
  const std::size_t count = settings_.modes.size() > 1 ? candidate_points / 4 : candidate_points;
  Point shift;
  for (std::size_t p = 0; p < dimensions; ++p) shift.push_back(random.unit());
  std::vector<std::pair<double, Point>> candidates;
  for (std::size_t i = 0; i < count; ++i) {
    Point point(dimensions);
    if (has_sequence) point = sequence.point(static_cast<std::uint32_t>(i));
    for (std::size_t p = 0; p < dimensions; ++p) {
      if (!has_sequence) point[p] = random.unit();
      point[p] = std::fmod(point[p] + shift[p], 1.0);
    }
    point = rounded(std::move(point));
    const double value = acquisition(model, point);
    candidates.emplace_back(value, std::move(point));
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  // The best candidates, and the best past points.
  std::vector<Point> starts = model.starts;
  for (std::size_t i = 0; i < starts_per_search; ++i) starts.push_back(candidates[i].second);
  Point best = candidates.front().second;
  double most = candidates.front().first;
  for (auto& start : starts) {
    Point reached = rounded(climb(model, std::move(start)));
    const double value = acquisition(model, reached);
    if (value <= most) continue;
    most = value;
    best = std::move(reached);
  }
  return best;
}

// ---- the searcher

Result<Suggestion> GpSearch::ask(TrialNumber trial, SearchRandom random) {
  Point point;
  if (starting() || sorted_.empty()) {
    point = random_point(random.startup);
  } else {
    const Model model = fit_model(random.model);
    point = best_point(model, random.model);
  }
  Suggestion suggestion{.kind = Suggestion::Kind::config};
  for (std::size_t i = 0; i < space_.parameters().size(); ++i) {
    const auto& [name, own, condition, constant] = space_.parameters()[i];
    if (condition) {
      const Value* parent = suggestion.config.find(condition->parameter);
      if (parent == nullptr || !(*parent == condition->equals)) continue;
    }
    const auto at = std::find(sorted_.begin(), sorted_.end(), i);
    if (constant)
      suggestion.config.set(name, own.choices.front());
    else if (at == sorted_.end())
      suggestion.config.set(name, own.external(own.is_category() ? 0 : own.low));
    else
      suggestion.config.set(
          name, own.external(value_at(point, static_cast<std::size_t>(at - sorted_.begin()))));
  }
  live_[trial] = std::move(point);
  return suggestion;
}

void GpSearch::tell(TrialNumber trial, const TrialEnd& end) {
  auto found = live_.extract(trial);
  if (found.empty() || end.state != EndState::complete) return;
  TrialPoint result{std::move(found.mapped()), end.values, end.constraints};
  if (result.scores.empty() && end.value) result.scores = {*end.value};
  if (result.scores.size() != settings_.modes.size()) return;
  for (std::size_t k = 0; k < result.scores.size(); ++k) {
    if (std::isnan(result.scores[k])) return;
    result.scores[k] *= sign_of(settings_.modes[k]);
  }
  results_.push_back(std::move(result));
}

std::string GpSearch::save() const { return save_state(*this); }

Result<void> GpSearch::load(std::string_view state) {
  return load_state(*this, state, "GP searcher");
}

}  // namespace mobula::internal::tune
