// Experiments with known shapes, for reports and exports.
// Thread: owner.
#pragma once

#include <fmt/format.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "tune/core/random/random_streams.h"
#include "tune/store/experiment_store.h"

namespace mobula::internal::tune {

struct SampleShape {
  std::int64_t trials = 100;
  std::int64_t reports = 20;
  std::int64_t extra_parameters = 0;
};

// Trials of a search over lr, momentum, layers, and opt. Bad trials stop early, as with successive
// halving; some fail. Four trials run at a time on two nodes.
class SampleExperiment {
 public:
  explicit SampleExperiment(const SampleShape& shape, const std::string& name = "sample") {
    char directory[] = "/tmp/mobula-tune-report-XXXXXX";
    location = {::mkdtemp(directory), name};
    auto store = ExperimentStore::create(location,
                                         {.name = name,
                                          .created_ms = begin,
                                          .spec = "{}",
                                          .seed = 42,
                                          .metric = "loss",
                                          .mode = Mode::min,
                                          .state = "finished"},
                                         {})
                     .value();
    for (TrialNumber trial = 0; trial < shape.trials; ++trial) {
      StoreBatch batch{static_cast<std::uint64_t>(trial) + 1, {}};
      add_trial(batch, trial, shape);
      store->write(std::move(batch));
    }
  }
  ~SampleExperiment() {
    std::error_code ignored;
    std::filesystem::remove_all(location.storage, ignored);
  }
  SampleExperiment(const SampleExperiment&) = delete;
  SampleExperiment& operator=(const SampleExperiment&) = delete;

  static constexpr std::int64_t begin = 1'790'000'000'000;
  ExperimentLocation location;

 private:
  void add_trial(StoreBatch& batch, TrialNumber number, const SampleShape& shape) {
    // Later trials search near the optimum.
    const double focus =
        std::min(1.0, static_cast<double>(number) / static_cast<double>(shape.trials));
    const double range = random_.unit() < focus * 0.7 ? 0.25 : 1.0;
    const double lr = std::pow(10.0, -2.5 + (random_.unit() - 0.5) * 4 * range);
    const double momentum = 0.9 + (random_.unit() - 0.5) * 0.2 * range;
    const std::int64_t layers = 1 + static_cast<std::int64_t>(random_.unit() * 6);
    const char* opt = random_.unit() < 0.5 ? "adam" : random_.unit() < 0.5 ? "sgd" : "lion";
    StoredTrial trial{.trial = number, .state = TrialState::terminated, .seed = 1, .attempts = 1};
    trial.config = {{"lr", lr}, {"momentum", momentum}, {"layers", layers}, {"opt", opt}};
    for (std::int64_t i = 0; i < shape.extra_parameters; ++i) {
      trial.config.set(fmt::format("extra/{}", i), random_.unit());
    }
    const double floor = 0.1 + std::pow(std::log10(lr) + 2.5, 2) * 0.2 +
                         std::abs(momentum - 0.9) * 0.8 + (opt[0] == 's' ? 0.15 : 0.0) +
                         random_.unit() * 0.05;
    const bool fails = number % 23 == 7;
    std::int64_t steps = shape.reports;
    if (floor > 0.35) steps = std::max<std::int64_t>(1, shape.reports / 4);
    if (floor > 0.6) steps = std::max<std::int64_t>(1, shape.reports / 16);
    const std::int64_t lane = number % 4;
    trial.created_ms = std::max(free_ms_[lane], begin);
    for (std::int64_t step = 1; step <= steps; ++step) {
      const double loss =
          floor + 2.0 * std::exp(-static_cast<double>(step) * 0.35) + random_.unit() * 0.02;
      batch.changes.emplace_back(StoredReport{number,
                                              1,
                                              step,
                                              trial.created_ms + step * 500,
                                              {{"accuracy", 1 - loss / 3}, {"loss", loss}}});
    }
    trial.ended_ms = trial.created_ms + steps * 500 + 200;
    free_ms_[lane] = trial.ended_ms;
    trial.node = lane < 2 ? "gpu-node-1" : "gpu-node-2";
    if (fails) {
      trial.state = TrialState::failed;
      trial.error_kind = "exception";
      trial.error = "std::runtime_error: CUDA out of memory";
    }
    batch.changes.insert(batch.changes.begin(), trial);
    batch.changes.emplace_back(StoredAttempt{number, 1, trial.node, 4000 + number, trial.created_ms,
                                             trial.ended_ms,
                                             fails                   ? "exception"
                                             : steps < shape.reports ? "stopped"
                                                                     : "completed",
                                             fails ? trial.error : ""});
  }

  NumpyRandom random_{7};
  std::int64_t free_ms_[4] = {};
};

}  // namespace mobula::internal::tune
