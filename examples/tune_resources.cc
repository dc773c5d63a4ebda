// Resources of trials: by default one CPU each, and as many trials at once as the cluster has CPUs.
#include <mobula/tune.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "where.h"

namespace tune = mobula::tune;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void trainable(const tune::Config& config) {
  const double begin = seconds_now();
  const double x = config.number("x");
  for (int t = 1; t <= 20; ++t)
    tune::report({{"loss", std::pow(x - 2, 2) / t}, {"begin", begin}, {"end", seconds_now()}});
}

// The most trials that ran at one time.
int most_at_once(const tune::ResultGrid& results) {
  std::vector<std::pair<double, int>> changes;
  for (const auto& result : results.all()) {
    changes.emplace_back(result.metrics.at("begin").number(), 1);
    changes.emplace_back(result.metrics.at("end").number(), -1);
  }
  std::sort(changes.begin(), changes.end());
  int live = 0;
  int most = 0;
  for (const auto& change : changes) most = std::max(most, live += change.second);
  return most;
}

int main(int argc, char** argv) {
  // Joins an existing cluster with --mobula-address or MOBULA_ADDRESS.
  auto cluster = mobula::init(argc, argv, own_cluster_with({.num_cpus = 4, .num_gpus = 1}));
  tune::RunOptions base{.metric = "loss", .space = {{"x", tune::uniform(-5, 5)}}};
  base.verbose = 0;
  // Reports do not wait for the disk.
  base.durability = tune::Durability::relaxed;
  bool kept = true;
  auto run_with = [&](const std::string& name, int limit, tune::ResourcesPerTrial resources) {
    auto options = base;
    options.num_samples = 2 + limit;
    options.name = "resources-" + name + "-" + cluster.job_id();
    options.resources_per_trial = std::move(resources);
    const int most = most_at_once(tune::run<trainable>(options));
    std::cout << name << ": " << most << " at once, at most " << limit << "\n";
    kept = kept && most <= limit;
  };
  run_with("default", 4, {{"cpu", 1}});
  run_with("two-cpus", 2, {{"cpu", 2}});
  run_with("four-cpus", 1, {{"cpu", 4}});
  run_with("half-a-cpu", 8, {{"cpu", 0.5}});
  // CUDA_VISIBLE_DEVICES per trial; empty without "gpu".
  run_with("gpu", 1, {{"gpu", 1}});
  run_with("two-cpus-and-gpu", 1, {{"cpu", 2}, {"gpu", 1}});
  run_with("memory", 1, {{"cpu", 2}, {"gpu", 1}, {"memory", 1 << 20}});
  run_with("group", 1, tune::PlacementGroupFactory{{{{"CPU", 2}, {"GPU", 1}}}});
  return kept ? 0 : 1;
}
