#include "tune/core/searchers/bohb/bohb_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "tune/core/numpy_arithmetic.h"
#include "tune/core/searchers/tpe/truncated_normal.h"
#include "tune/core/state_archive.h"

namespace mobula::internal::tune {
namespace {

constexpr double smallest_density = 1e-32;

}  // namespace

Result<std::unique_ptr<BohbSearch>> BohbSearch::make(const BohbSettings& settings,
                                                     const SearchSpace& space) {
  auto option = [](const char* name, double value, const char* advice) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("BohbOptions::{}: {}; {}", name, value, advice));
  };
  if (settings.top_n_percent < 1 || settings.top_n_percent > 99)
    return option("top_n_percent", settings.top_n_percent, "pass 1 to 99");
  if (settings.num_samples < 1)
    return option("num_samples", settings.num_samples, "pass at least 1");
  if (!(settings.random_fraction >= 0 && settings.random_fraction <= 1))
    return option("random_fraction", settings.random_fraction, "pass a value from 0 to 1");
  if (!(settings.bandwidth_factor > 0))
    return option("bandwidth_factor", settings.bandwidth_factor, "pass a value above 0");
  if (!(settings.min_bandwidth > 0))
    return option("min_bandwidth", settings.min_bandwidth, "pass a value above 0");
  if (space.empty())
    return failure(ErrorCode::invalid_argument,
                   "BOHBSearch: the space has no parameters; pass at least one");
  return std::unique_ptr<BohbSearch>(new BohbSearch(settings, space));
}

double BohbSearch::to_unit(std::size_t i, double value) const {
  const Dimension& own = dimension(i);
  if (own.is_category()) return value;
  if (own.single()) return 0.5;
  return (own.to_model(value) - own.model_low()) / (own.model_high() - own.model_low());
}

double BohbSearch::from_unit(std::size_t i, double unit) const {
  const Dimension& own = dimension(i);
  if (own.is_category()) return unit;
  if (own.single()) return own.low;
  return own.from_model(own.model_low() + unit * (own.model_high() - own.model_low()));
}

BohbSearch::Point BohbSearch::random_point(NumpyRandom& random) const {
  Point point;
  for (std::size_t i = 0; i < space_.parameters().size(); ++i)
    point.push_back(
        to_unit(i, dimension(i).single() ? dimension(i).low : dimension(i).sample(random)));
  return point;
}

double BohbSearch::sample_near(std::size_t i, double center, double bandwidth,
                               NumpyRandom& random) const {
  if (dimension(i).is_category()) {
    if (random.unit() < 1 - bandwidth) return center;
    return static_cast<double>(random.index(dimension(i).choices.size()));
  }
  const double wide = settings_.bandwidth_factor * bandwidth;
  const std::vector<TruncatedDraw> draw{{random.unit(), -center / wide, (1 - center) / wide}};
  return std::clamp(truncated_quantiles(draw)[0] * wide + center, 0.0, 1.0);
}

BohbSearch::Point BohbSearch::model_point(NumpyRandom& random) const {
  Point best;
  double least = std::numeric_limits<double>::infinity();
  for (int sample = 0; sample < settings_.num_samples; ++sample) {
    const Point& center = model_.good.points[random.index(model_.good.points.size())];
    Point point;
    for (std::size_t i = 0; i < center.size(); ++i)
      point.push_back(sample_near(i, center[i], model_.good.bandwidths[i], random));
    const double ratio = std::max(density_at(model_.bad, point), smallest_density) /
                         std::max(density_at(model_.good, point), smallest_density);
    if (!best.empty() && !(ratio < least)) continue;
    least = ratio;
    best = std::move(point);
  }
  return best;
}

Result<Suggestion> BohbSearch::ask(TrialNumber trial, SearchRandom random) {
  if (most_running_ > 0 && static_cast<int>(running_.size()) >= most_running_)
    return Suggestion{.kind = Suggestion::Kind::later};
  const bool blind = model_.budget < 0 || random.model.unit() < settings_.random_fraction;
  Point point = blind ? random_point(random.model) : model_point(random.model);
  Suggestion suggestion{.kind = Suggestion::Kind::config};
  for (std::size_t i = 0; i < point.size(); ++i) {
    const auto& parameter = space_.parameters()[i];
    const double value = from_unit(i, point[i]);
    point[i] = to_unit(i, value);  // the value that the trial uses
    if (parameter.condition) {
      const Value* parent = suggestion.config.find(parameter.condition->parameter);
      if (parent == nullptr || !(*parent == parameter.condition->equals)) continue;
    }
    suggestion.config.set(parameter.name, parameter.dimension.external(value));
  }
  live_[trial] = std::move(point);
  running_.insert(trial);
  return suggestion;
}

void BohbSearch::budget_reached(TrialNumber trial, double budget, double value) {
  const auto found = live_.find(trial);
  // Results of a smaller budget than that of the model do not count.
  if (found == live_.end() || model_.budget > budget) return;
  const double loss = -sign_of(settings_.mode) * value;
  results_[budget].emplace_back(
      std::isfinite(loss) ? loss : std::numeric_limits<double>::infinity(), found->second);
  build_model();
}

void BohbSearch::build_model() {
  model_ = {};
  const std::size_t dimensions = space_.parameters().size();
  const std::size_t least = dimensions + 1;
  for (auto results = results_.rbegin(); results != results_.rend(); ++results) {
    const auto& entries = results->second;
    const std::size_t count = entries.size();
    if (count < least) continue;
    const auto percent = static_cast<std::size_t>(settings_.top_n_percent);
    const std::size_t good = std::min(std::max(least, percent * count / 100), count);
    const std::size_t bad = std::min(std::max(least, (100 - percent) * count / 100), count - good);
    if (good <= dimensions || bad <= dimensions) continue;
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return entries[a].first < entries[b].first;
    });
    std::vector<Point> good_points;
    std::vector<Point> bad_points;
    for (std::size_t i = 0; i < good; ++i) good_points.push_back(entries[order[i]].second);
    for (std::size_t i = good; i < good + bad; ++i) bad_points.push_back(entries[order[i]].second);
    model_ = {results->first, density_of(std::move(good_points)),
              density_of(std::move(bad_points))};
    return;
  }
}

BohbSearch::Density BohbSearch::density_of(std::vector<Point> points) const {
  Density density{.points = std::move(points)};
  const auto count = static_cast<double>(density.points.size());
  const std::size_t dimensions = space_.parameters().size();
  // The normal reference rule.
  const double factor = 1.06 * std::pow(count, -1.0 / (4.0 + static_cast<double>(dimensions)));
  for (std::size_t i = 0; i < dimensions; ++i) {
    std::vector<double> column;
    for (const Point& point : density.points) column.push_back(point[i]);
    density.bandwidths.push_back(
        std::max(factor * population_deviation(column), settings_.min_bandwidth));
    density.levels.push_back(
        static_cast<double>(std::set<double>(column.begin(), column.end()).size()));
  }
  return density;
}

double BohbSearch::density_at(const Density& density, const Point& point) const {
  double sum = 0;
  for (const Point& center : density.points) {
    double product = 1;
    for (std::size_t i = 0; i < point.size(); ++i) {
      const double bandwidth = density.bandwidths[i];
      if (dimension(i).is_category()) {
        // The kernel of Aitchison and Aitken.
        const double others = std::max(density.levels[i] - 1, 1.0);
        product *= point[i] == center[i] ? 1 - std::min(bandwidth, 1.0) : bandwidth / others;
        continue;
      }
      const double z = (point[i] - center[i]) / bandwidth;
      product *= std::exp(-z * z / 2) / (bandwidth * std::sqrt(2 * std::numbers::pi));
    }
    sum += product;
  }
  return sum / static_cast<double>(density.points.size());
}

void BohbSearch::tell(TrialNumber trial, const TrialEnd& /*end*/) {
  live_.erase(trial);
  running_.erase(trial);
}

void BohbSearch::paused(TrialNumber trial) { running_.erase(trial); }

void BohbSearch::resumed(TrialNumber trial) {
  if (live_.contains(trial)) running_.insert(trial);
}

bool BohbSearch::limit_concurrency(int most) {
  most_running_ = most;
  return true;
}

std::string BohbSearch::save() const { return save_state(*this); }

Result<void> BohbSearch::load(std::string_view state) {
  return load_state(*this, state, "BOHB searcher");
}

}  // namespace mobula::internal::tune
