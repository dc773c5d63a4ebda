// Measures the file of an experiment: its size, the time to write it, and the time to resume and
// read it. Prints one line per figure: name, value, unit.
//   mobula-bench-tune-storage DIRECTORY [TRIALS] [REPORTS] [EVENTS]   (default: 100,000 trials, 10
//   reports; EVENTS 'all' writes no snapshots, so that all events stay)
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "tune/core/random/random_streams.h"
#include "tune/store/experiment_reader.h"
#include "tune/store/experiment_store.h"

namespace {

using namespace mobula::internal::tune;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

template <class T>
T checked(mobula::internal::Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "{}\n", result.error().text);
  std::exit(1);
}

struct Shape {
  std::int64_t trials = 100'000;
  std::int64_t reports = 10;
  bool has_snapshots = true;
};

// Five parameters, two metrics, one event per report and per end; a snapshot of 100 bytes per trial
// every 10,000 events.
class Writer {
 public:
  Writer(ExperimentStore& store, const Shape& shape) : store_(store), shape_(shape) {}

  void write_all() {
    for (TrialNumber trial = 0; trial < shape_.trials; ++trial) {
      write_trial(trial);
      while (store_.waiting_bytes() > (8u << 20)) std::this_thread::yield();
    }
    if (!store_.flush()) std::exit(1);
  }

 private:
  void write_trial(TrialNumber number) {
    StoreBatch batch{static_cast<std::uint64_t>(number) + 1, {}};
    StoredTrial trial{.trial = number, .state = TrialState::running, .seed = 1, .attempts = 1};
    for (const char* name : {"lr", "momentum", "dropout", "width", "decay"}) {
      trial.config.set(name, random_.unit());
    }
    trial.created_ms = 1'800'000'000'000 + number;
    trial.node = "node-1";
    batch.changes.emplace_back(trial);
    batch.changes.emplace_back(StoredAttempt{number, 1, "node-1", 4711, trial.created_ms,
                                             trial.created_ms + 9, "completed"});
    for (std::int64_t step = 1; step <= shape_.reports; ++step) {
      batch.changes.emplace_back(
          StoredReport{number,
                       1,
                       step,
                       trial.created_ms + step,
                       {{"accuracy", random_.unit()}, {"loss", random_.unit()}}});
      add_event(batch, number);
    }
    trial.state = TrialState::terminated;
    trial.ended_ms = trial.created_ms + 9;
    trial.config = {};
    batch.changes.emplace_back(trial);
    add_event(batch, number);
    store_.write(std::move(batch));
  }

  void add_event(StoreBatch& batch, TrialNumber trial) {
    batch.changes.emplace_back(StoredEvent{++event_, 1, trial, std::string(60, 'e')});
    if (event_ % 10'000 != 0 || !shape_.has_snapshots) return;
    const auto bytes = static_cast<std::size_t>(trial) * 50;
    batch.changes.emplace_back(
        StoredSnapshot{event_, std::string(bytes, 'c'), std::string(bytes, 's')});
  }

  ExperimentStore& store_;
  const Shape shape_;
  NumpyRandom random_{1};
  EventNumber event_ = 0;
};

void measure_reading(const ExperimentLocation& location) {
  auto begin = Clock::now();
  auto reader = checked(ExperimentReader::open(location));
  checked(reader.experiment());
  checked(reader.counts());
  checked(reader.best(1));
  fmt::print("tune_list {:.1f} ms\n", ms_since(begin));
  begin = Clock::now();
  checked(reader.best(5));
  fmt::print("tune_best {:.1f} ms\n", ms_since(begin));
  begin = Clock::now();
  checked(reader.reports(0));
  fmt::print("tune_reports_of_trial {:.1f} ms\n", ms_since(begin));
  begin = Clock::now();
  checked(reader.trials());
  fmt::print("tune_all_trials {:.1f} ms\n", ms_since(begin));
  begin = Clock::now();
  checked(reader.points("loss"));
  fmt::print("tune_points_of_metric {:.1f} ms\n", ms_since(begin));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: mobula-bench-tune-storage DIRECTORY [TRIALS] [REPORTS] [EVENTS]\n");
    return 2;
  }
  Shape shape;
  if (argc > 2) shape.trials = std::atoll(argv[2]);
  if (argc > 3) shape.reports = std::atoll(argv[3]);
  if (argc > 4) shape.has_snapshots = std::string(argv[4]) != "all";
  const ExperimentLocation location{argv[1], "bench-storage"};
  std::filesystem::remove_all(location.directory());
  auto begin = Clock::now();
  {
    const StoredExperiment experiment{.name = location.name, .spec = "{}", .metric = "loss"};
    auto store = checked(ExperimentStore::create(location, experiment, {}));
    Writer(*store, shape).write_all();
  }
  fmt::print("tune_write_{}_trials {:.0f} ms\n", shape.trials, ms_since(begin));
  fmt::print("tune_file {:.1f} MB\n",
             static_cast<double>(std::filesystem::file_size(location.file())) / 1e6);
  begin = Clock::now();
  {
    auto store = checked(ExperimentStore::resume(location, {}));
    const auto state = checked(store->load());
    fmt::print("tune_resume {:.0f} ms ({} events, {} snapshots, {} trials)\n", ms_since(begin),
               state.events.size(), state.snapshots.size(), state.trial_count);
  }
  measure_reading(location);
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  fmt::print("tune_memory_of_bench {:.0f} MB\n", static_cast<double>(use.ru_maxrss) / 1e3);
  std::filesystem::remove_all(location.directory());
}
