#include "tune/core/searchers/tpe/parzen_estimator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "tune/core/numpy_arithmetic.h"
#include "tune/core/searchers/tpe/truncated_normal.h"

namespace mobula::internal::tune {
namespace {

constexpr std::size_t recent = 25;    // observations of full weight
constexpr double negligible = -60.0;  // logarithm of a relative weight that changes no digit

// The weights of `count` observations and of the prior.
std::vector<double> kernel_weights(std::size_t count, ParzenEstimator::Weights kind) {
  std::vector<double> weights(count + 1, 1.0);
  if (count > recent && kind == ParzenEstimator::Weights::recent) {
    const std::size_t ramp = count - recent;
    const double start = 1.0 / static_cast<double>(count);
    const double step = ramp > 1 ? (1.0 - start) / static_cast<double>(ramp - 1) : 0;
    for (std::size_t i = 0; i < ramp; ++i) weights[i] = static_cast<double>(i) * step + start;
    if (ramp > 1) weights[ramp - 1] = 1.0;
  }
  const double sum = pairwise_sum(weights);
  for (double& weight : weights) weight /= sum;
  return weights;
}

// The logarithm of a sum of exponentials that arrive in blocks.
class LogSum {
 public:
  void add(std::span<const double> logs) {
    double largest = logs[0];
    for (const double value : logs) largest = std::max(largest, value);
    if (largest > largest_) {
      sum_ *= std::exp(largest_ - largest);
      largest_ = largest;
    }
    if (largest - largest_ < negligible) return;
    for (const double value : logs)
      if (value - largest_ > negligible) sum_ += std::exp(value - largest_);
  }
  double value() const { return std::log(sum_) + largest_; }

 private:
  double largest_ = -std::numeric_limits<double>::infinity();
  double sum_ = 0;
};

}  // namespace

ParzenEstimator::ParzenEstimator(std::size_t count, Weights weights)
    : weights_(kernel_weights(count, weights)) {}

void ParzenEstimator::add_numeric(const Dimension& dimension,
                                  std::span<const SortedObservation> sorted,
                                  std::span<CachedMass> cache) {
  const std::size_t count = sorted.size();
  const double low = dimension.model_low();
  const double high = dimension.model_high();
  const double widest = high - low;
  const double narrowest = widest / std::min(100.0, static_cast<double>(count) + 2.0);
  Numeric part{.dimension = dimension, .kernels = std::vector<Kernel>(count + 1)};
  for (std::size_t i = 0; i < count; ++i) {
    const double mu = sorted[i].mu;
    const double before = i > 0 ? sorted[i - 1].mu : low;
    const double after = i + 1 < count ? sorted[i + 1].mu : high;
    double sigma = std::max(mu - before, after - mu);
    if (count >= 2 && i == 0) sigma = after - mu;
    if (count >= 2 && i + 1 == count) sigma = mu - before;
    sigma = std::min(std::max(sigma, narrowest), widest);
    CachedMass& cached = cache[static_cast<std::size_t>(sorted[i].row)];
    if (cached.sigma != sigma)
      cached = {sigma, log_normal_mass((low - mu) / sigma, (high - mu) / sigma)};
    part.kernels[static_cast<std::size_t>(sorted[i].kernel)] = {mu, sigma, cached.log_mass};
  }
  const double center = 0.5 * (low + high);
  part.kernels[count] = {center, widest,
                         log_normal_mass((low - center) / widest, (high - center) / widest)};
  parts_.push_back({true, numerics_.size()});
  numerics_.push_back(std::move(part));
}

void ParzenEstimator::add_category(const Dimension& dimension, std::vector<std::int32_t> observed) {
  const auto choices = static_cast<double>(dimension.choices.size());
  const double prior = 1.0 / static_cast<double>(observed.size() + 1);
  // Each row has the prior per choice, and the observed choice has one more.
  const double sum = prior * choices + 1.0;
  Categorical part{.choices = dimension.choices.size(),
                   .observed = std::move(observed),
                   .other_weight = prior / sum,
                   .own_weight = (prior + 1.0) / sum};
  part.observed.push_back(-1);
  parts_.push_back({false, categoricals_.size()});
  categoricals_.push_back(std::move(part));
}

CandidateColumns ParzenEstimator::sample(std::size_t size, NumpyRandom& random) const {
  std::vector<double> cumulative(weights_.size());
  double sum = 0;
  for (std::size_t k = 0; k < weights_.size(); ++k) cumulative[k] = sum += weights_[k];
  for (double& value : cumulative) value /= sum;
  std::vector<std::size_t> active(size);
  for (std::size_t& kernel : active) {
    const auto at = std::upper_bound(cumulative.begin(), cumulative.end(), random.unit());
    kernel = std::min(static_cast<std::size_t>(at - cumulative.begin()), weights_.size() - 1);
  }
  CandidateColumns columns(parts_.size(), std::vector<double>(size));
  draw_categories(active, random, columns);
  draw_numbers(active, random, columns);
  return columns;
}

void ParzenEstimator::draw_categories(std::span<const std::size_t> active, NumpyRandom& random,
                                      CandidateColumns& out) const {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (parts_[p].numeric) continue;
    const Categorical& part = categoricals_[parts_[p].index];
    for (std::size_t c = 0; c < active.size(); ++c) {
      const double drawn = random.unit();
      const std::int32_t observed = part.observed[active[c]];
      double sum = 0;
      std::size_t chosen = 0;
      // The last cumulative weight is 1.
      for (std::size_t i = 0; i + 1 < part.choices; ++i) {
        sum += observed < 0                              ? 1.0 / static_cast<double>(part.choices)
               : static_cast<std::size_t>(observed) == i ? part.own_weight
                                                         : part.other_weight;
        if (sum < drawn) ++chosen;
      }
      out[p][c] = static_cast<double>(chosen);
    }
  }
}

void ParzenEstimator::draw_numbers(std::span<const std::size_t> active, NumpyRandom& random,
                                   CandidateColumns& out) const {
  std::vector<TruncatedDraw> draws;
  for (const Part& each : parts_) {
    if (!each.numeric) continue;
    const Numeric& part = numerics_[each.index];
    const double low = part.dimension.model_low();
    const double high = part.dimension.model_high();
    for (const std::size_t kernel : active)
      draws.push_back({.quantile = random.unit(),
                       .a = (low - part.kernels[kernel].mu) / part.kernels[kernel].sigma,
                       .b = (high - part.kernels[kernel].mu) / part.kernels[kernel].sigma});
  }
  const std::vector<double> found = truncated_quantiles(draws);
  std::size_t next = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (!parts_[p].numeric) continue;
    const Numeric& part = numerics_[parts_[p].index];
    const Dimension& dimension = part.dimension;
    for (std::size_t c = 0; c < active.size(); ++c) {
      const Kernel& kernel = part.kernels[active[c]];
      double value = found[next++] * kernel.sigma + kernel.mu;
      if (dimension.log) value = std::exp(value);
      if (dimension.step != 0)
        value = dimension.low +
                round_half_even((value - dimension.low) / dimension.step) * dimension.step;
      out[p][c] = dimension.step != 0 ? std::clamp(value, dimension.low, dimension.high) : value;
    }
  }
}

void ParzenEstimator::add_cells(const Numeric& part, std::span<const double> values,
                                std::vector<double>& table) const {
  // Equal kernels and equal candidates share one mass.
  std::map<std::pair<double, double>, std::size_t> shapes;
  std::vector<std::size_t> shape_of(kernels());
  for (std::size_t k = 0; k < kernels(); ++k)
    shape_of[k] = shapes.try_emplace({part.kernels[k].mu, part.kernels[k].sigma}, shapes.size())
                      .first->second;
  std::map<double, std::vector<std::size_t>> candidates;
  for (std::size_t c = 0; c < values.size(); ++c) candidates[values[c]].push_back(c);
  const double half = part.dimension.step / 2;
  std::vector<double> mass(shapes.size());
  for (const auto& [value, indices] : candidates) {
    const double left = part.dimension.log ? std::log(value - half) : value - half;
    const double right = part.dimension.log ? std::log(value + half) : value + half;
    for (const auto& [shape, number] : shapes)
      mass[number] = log_normal_mass((left - shape.first) / shape.second,
                                     (right - shape.first) / shape.second);
    for (const std::size_t c : indices)
      for (std::size_t k = 0; k < kernels(); ++k)
        table[c * kernels() + k] += mass[shape_of[k]] - part.kernels[k].log_mass;
  }
}

void ParzenEstimator::add_choices(const Categorical& part, std::span<const double> values,
                                  std::vector<double>& table) const {
  const double prior = std::log(1.0 / static_cast<double>(part.choices));
  const double own = std::log(part.own_weight);
  const double other = std::log(part.other_weight);
  for (std::size_t c = 0; c < values.size(); ++c) {
    const auto choice = static_cast<std::int32_t>(values[c]);
    for (std::size_t k = 0; k < kernels(); ++k)
      table[c * kernels() + k] +=
          part.observed[k] < 0 ? prior : (part.observed[k] == choice ? own : other);
  }
}

std::vector<double> ParzenEstimator::log_density(const CandidateColumns& candidates) const {
  const std::size_t size = candidates.empty() ? 0 : candidates[0].size();
  std::vector<double> cells;  // terms of stepped and categorical dimensions; often none
  std::vector<const Numeric*> smooth;
  std::vector<std::vector<double>> points;  // smooth coordinates of the candidates, as in the model
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const bool continuous = parts_[p].numeric && numerics_[parts_[p].index].dimension.step == 0;
    if (!continuous && cells.empty()) cells.resize(size * kernels());
    if (!parts_[p].numeric) {
      add_choices(categoricals_[parts_[p].index], candidates[p], cells);
    } else if (!continuous) {
      add_cells(numerics_[parts_[p].index], candidates[p], cells);
    } else {
      smooth.push_back(&numerics_[parts_[p].index]);
      std::vector<double>& values = points.emplace_back(candidates[p]);
      if (smooth.back()->dimension.log)
        for (double& value : values) value = std::log(value);
    }
  }

  std::vector<LogSum> sums(size);
  Block block;
  block.mu.resize(smooth.size());
  block.inverse.resize(smooth.size());
  std::array<double, Block::size> terms;
  for (std::size_t begin = 0; begin < kernels(); begin += Block::size) {
    const std::size_t count = std::min(Block::size, kernels() - begin);
    fill_block(smooth, begin, count, block);
    for (std::size_t c = 0; c < size; ++c) {
      std::fill_n(terms.begin(), count, 0.0);
      for (std::size_t d = 0; d < smooth.size(); ++d) {
        const double x = points[d][c];
        const double* mu = block.mu[d].data();
        const double* inverse = block.inverse[d].data();
        for (std::size_t k = 0; k < count; ++k) {
          const double distance = (x - mu[k]) * inverse[k];
          terms[k] += distance * distance;
        }
      }
      for (std::size_t k = 0; k < count; ++k) terms[k] = block.constant[k] - 0.5 * terms[k];
      if (!cells.empty())
        for (std::size_t k = 0; k < count; ++k) terms[k] += cells[c * kernels() + begin + k];
      sums[c].add(std::span(terms).first(count));
    }
  }
  std::vector<double> densities;
  for (const LogSum& sum : sums) densities.push_back(sum.value());
  return densities;
}

void ParzenEstimator::fill_block(std::span<const Numeric* const> smooth, std::size_t begin,
                                 std::size_t count, Block& block) const {
  const double log_root = std::log(std::sqrt(2 * std::numbers::pi));
  for (std::size_t d = 0; d < smooth.size(); ++d) {
    for (std::size_t k = 0; k < count; ++k) {
      block.mu[d][k] = smooth[d]->kernels[begin + k].mu;
      block.inverse[d][k] = 1 / smooth[d]->kernels[begin + k].sigma;
    }
  }
  // One logarithm per kernel: of its weight divided by its bandwidths, unless that overflows.
  for (std::size_t k = 0; k < count; ++k) {
    double product = weights_[begin + k];
    double logs = 0;
    for (std::size_t d = 0; d < smooth.size(); ++d) {
      product *= block.inverse[d][k];
      logs -= smooth[d]->kernels[begin + k].log_mass + log_root;
      if (product > 1e-150 && product < 1e150) continue;
      logs += std::log(product);
      product = 1;
    }
    block.constant[k] = logs + std::log(product);
  }
}

}  // namespace mobula::internal::tune
