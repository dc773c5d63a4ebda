// Training: a gang of workers inside each trial, population based training with checkpoints, and a
// study without a cluster.
#include <mobula/tune.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <vector>

#include "where.h"

namespace tune = mobula::tune;

// One member of the gang of a trial.
struct Rank {
  double epoch(double learning_rate) { return learning_rate * 2; }
};

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void train(const tune::Config& config) {
  auto ranks = tune::workers<Rank>(2);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<mobula::ObjectRef<double>> losses;
    for (auto& rank : ranks) losses.push_back(rank.call<&Rank::epoch>(config.number("lr")));
    tune::report({{"loss", mean(mobula::get(losses))}});
  }
}

int read_step(const std::string& directory) {
  int step = 0;
  std::ifstream(directory + "/step") >> step;
  return step;
}

void write_step(const std::string& directory, int step) {
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/step") << step;
}

// Continues from its checkpoint, after a pause, a failure, or an exploit.
void resumable(const tune::Config& config) {
  // All trials of a node share the working directory, therefore an absolute path.
  const std::string state = tune::get_context().directory + "/state";
  int t = 0;
  if (auto last = tune::get_checkpoint()) t = read_step(last->path);
  for (; t < 20; ++t) {
    write_step(state, t + 1);
    tune::report({{"score", config.number("lr") * t}}, {.checkpoint = state});
  }
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv, own_cluster_with({.num_cpus = 4}));

  const mobula::Resources worker{{"CPU", 1}};
  tune::RunOptions gang{.metric = "loss",
                        .space = {{"lr", tune::loguniform(1e-5, 1e-1)}},
                        .num_samples = 4,
                        .resources_per_trial = tune::PlacementGroupFactory{{{}, worker, worker}}};
  std::cout << tune::run<train>(gang).best().config << "\n";

  tune::RunOptions population{.metric = "score", .mode = tune::Mode::max, .num_samples = 6};
  population.scheduler = tune::PopulationBasedTraining(
      {.time_attr = "training_iteration",
       .perturbation_interval = 5,
       .hyperparam_mutations = {{"lr", tune::loguniform(1e-5, 1e-1)}}});
  population.checkpoint = {.num_to_keep = 3};
  std::cout << tune::run<resumable>(population).best().config << "\n";

  // Ask and tell, without a cluster.
  tune::Study study;
  for (int i = 0; i < 20; ++i) {
    auto trial = study.ask();
    const double x = trial.uniform("x", 0, 1);
    study.tell(trial, {{"loss", x * x}});
  }
  std::cout << study.best() << "\n";
}
