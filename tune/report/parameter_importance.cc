#include "tune/report/parameter_importance.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "tune/report/plot_axis.h"

namespace mobula::internal::tune {
namespace {

constexpr std::size_t cells = 50;
constexpr std::size_t least_trials = 20;
constexpr double best_share = 0.1;

// Gaussian kernels with Scott's bandwidth over the unit interval, and a uniform prior of one trial.
std::vector<double> density_of(std::span<const double> positions, bool categories) {
  const auto count = static_cast<double>(positions.size());
  double mean = 0;
  for (const double at : positions) mean += at / count;
  double variance = 0;
  for (const double at : positions) variance += (at - mean) * (at - mean) / count;
  const double scott = 1.06 * std::sqrt(variance) * std::pow(count, -0.2);
  const double width = categories ? 1e-3 : std::max(scott, 1.0 / cells);
  std::vector<double> density(cells, 1.0 / cells);
  std::vector<double> kernel(cells);
  for (const double at : positions) {
    double sum = 0;
    for (std::size_t i = 0; i < cells; ++i) {
      const double center = (static_cast<double>(i) + 0.5) / cells;
      const double z = (center - at) / width;
      kernel[i] = categories ? (std::abs(center - at) <= 0.5 / cells + 1e-12 ? 1 : 0)
                             : std::exp(-0.5 * z * z);
      sum += kernel[i];
    }
    if (sum <= 0) continue;
    for (std::size_t i = 0; i < cells; ++i) density[i] += kernel[i] / sum;
  }
  double sum = 0;
  for (const double each : density) sum += each;
  for (double& each : density) each /= sum;
  return density;
}

double divergence_of(const std::vector<double>& best, const std::vector<double>& all) {
  double sum = 0;
  for (std::size_t i = 0; i < cells; ++i) {
    const double excess = best[i] / all[i] - 1;
    sum += all[i] * excess * excess;
  }
  return sum;
}

double importance_of(const std::vector<ReportTrial>& trials, const std::string& parameter) {
  std::vector<Value> values;
  for (const auto& trial : trials) {
    if (const Value* value = trial.config.find(parameter)) values.push_back(*value);
  }
  const PlotAxis axis = PlotAxis::of_values(values);
  std::vector<double> positions;
  for (const auto& value : values) {
    if (const auto at = axis.position(value)) positions.push_back(*at);
  }
  if (positions.size() < least_trials) return 0;
  const auto best =
      static_cast<std::size_t>(std::ceil(best_share * static_cast<double>(positions.size())));
  const std::span<const double> all(positions);
  return divergence_of(density_of(all.first(best), axis.has_categories()),
                       density_of(all, axis.has_categories()));
}

}  // namespace

std::vector<ReportImportance> importances_of(const std::vector<ReportTrial>& trials,
                                             const std::vector<std::string>& parameters) {
  std::vector<ReportImportance> importances;
  if (trials.size() < least_trials) return importances;
  double sum = 0;
  for (const auto& name : parameters) {
    importances.push_back({name, importance_of(trials, name)});
    sum += importances.back().share;
  }
  for (auto& each : importances) each.share = sum > 0 ? each.share / sum : 0;
  std::stable_sort(importances.begin(), importances.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  return importances;
}

}  // namespace mobula::internal::tune
