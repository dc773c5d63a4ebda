// Bayesian search with at most four trials at once, and early stopping of bad trials.
#include <mobula/tune.h>

#include <cmath>
#include <iostream>

#include "where.h"

namespace tune = mobula::tune;

void trainable(const tune::Config& config) {
  const double x = config.number("x");
  const double y = config.number("y");
  for (int t = 1; t <= 20; ++t)
    tune::report({{"loss", std::pow(x - 2, 2) + std::pow(y + 1, 2) + 1.0 / t}});
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv, own_cluster_with({.num_cpus = 4}));
  tune::RunOptions options{.metric = "loss",
                           .space = {{"x", tune::uniform(-5, 5)}, {"y", tune::uniform(-5, 5)}},
                           .num_samples = 24};
  options.search_alg = tune::ConcurrencyLimiter(
      tune::BayesOptSearch({.kind = "ucb", .kappa = 2.5, .xi = 0.0}), {.max_concurrent = 4});
  options.scheduler = tune::AsyncHyperBandScheduler({.max_t = 20});
  const auto results = tune::run<trainable>(options);
  std::cout << results.best().config << " " << results.best().metrics.at("loss") << "\n";

  // The same limit for any searcher.
  options.search_alg = tune::TPESearch();
  options.max_concurrent_trials = 4;
  options.verbose = 0;
  std::cout << tune::run<trainable>(options).best().config << "\n";
}
