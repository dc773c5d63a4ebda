// A mixture of products of truncated normal and categorical kernels, one per observation and one
// prior, with the bandwidths and weights of Optuna 5.0 (optuna/samplers/_tpe/parzen_estimator.py).
// Thread: owner.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tune/core/random/random_streams.h"
#include "tune/core/searchers/dimension.h"

namespace mobula::internal::tune {

// One observation in model coordinates: logarithms for a logarithmic dimension.
struct SortedObservation {
  double mu;
  std::int32_t kernel;  // place in the order of trial numbers
  std::int32_t row;     // place in the cache
};

// The logarithm of the mass of a kernel within its bounds, by row. A kernel whose bandwidth did not
// change needs no new computation.
struct CachedMass {
  double sigma, log_mass;
};

// Candidates by dimension: values[d][candidate].
using CandidateColumns = std::vector<std::vector<double>>;

class ParzenEstimator {
 public:
  // The weights of observations.
  enum class Weights : unsigned char {
    recent,  // older ones weigh less
    equal,
  };

  // `count` observations, in the order of trial numbers.
  explicit ParzenEstimator(std::size_t count, Weights weights = Weights::recent);

  // All observations in ascending order, equal ones by trial number.
  void add_numeric(const Dimension& dimension, std::span<const SortedObservation> sorted,
                   std::span<CachedMass> cache);
  // Indices of choices.
  void add_category(const Dimension& dimension, std::vector<std::int32_t> observed);

  // Values in the order of addition of the dimensions.
  CandidateColumns sample(std::size_t size, NumpyRandom& random) const;
  // Logarithm of the density of each candidate.
  std::vector<double> log_density(const CandidateColumns& candidates) const;

 private:
  struct Kernel {
    double mu, sigma, log_mass;
  };
  // Kernels are the observations and, last, the prior.
  struct Numeric {
    Dimension dimension;
    std::vector<Kernel> kernels;
  };
  struct Categorical {
    std::size_t choices;
    std::vector<std::int32_t> observed;  // -1: the prior
    // Weights of each other choice, and of the observed one.
    double other_weight, own_weight;
  };
  // Some kernels of all continuous dimensions, by dimension.
  struct Block {
    static constexpr std::size_t size = 512;
    std::vector<std::array<double, size>> mu, inverse;
    std::array<double, size> constant;  // logarithm of the weight and of the normalization
  };
  struct Part {
    bool numeric;
    std::size_t index;  // in numerics_ or categoricals_
  };

  std::size_t kernels() const { return weights_.size(); }
  void draw_categories(std::span<const std::size_t> active, NumpyRandom& random,
                       CandidateColumns& out) const;
  void draw_numbers(std::span<const std::size_t> active, NumpyRandom& random,
                    CandidateColumns& out) const;
  void fill_block(std::span<const Numeric* const> smooth, std::size_t begin, std::size_t count,
                  Block& block) const;
  // Adds the terms of stepped and categorical dimensions to table[candidate * kernels() + kernel].
  void add_cells(const Numeric& part, std::span<const double> values,
                 std::vector<double>& table) const;
  void add_choices(const Categorical& part, std::span<const double> values,
                   std::vector<double>& table) const;

  std::vector<double> weights_;  // normalized
  std::vector<Part> parts_;
  std::vector<Numeric> numerics_;
  std::vector<Categorical> categoricals_;
};

}  // namespace mobula::internal::tune
