// Waits until the memory of the trial's GPU is free before the training starts.
#include <mobula/tune.h>

#include <cstdlib>
#include <iostream>

#include "where.h"

namespace tune = mobula::tune;

void train(const tune::Config& config) {
  tune::wait_for_gpu({.target_util = 0.5, .retry = 3});
  tune::report({{"loss", config.number("lr")}});
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  if (mobula::cluster_resources()["GPU"] < 1) {
    std::cout << "skipped: the cluster has no GPU\n";
    return 0;
  }
  tune::RunOptions options{
      .metric = "loss", .space = {{"lr", tune::loguniform(1e-5, 1e-1)}}, .num_samples = 3};
  options.resources_per_trial = {{"gpu", 1}};
  const auto results = tune::run<train>(options);
  std::cout << results.best().config << "\n";
}
