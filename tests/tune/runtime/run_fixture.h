// Experiments of tests: a storage directory per process, and trials that prove how many of them ran
// at one time.
// Thread: any.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <mobula/tune.h>

namespace mobula::testing {

namespace fs = std::filesystem;

// A directory that the executors see as well: they inherit the variable.
inline std::string tune_storage() {
  if (const char* given = std::getenv("TUNE_TEST_STORAGE")) return given;
  std::string pattern = fs::temp_directory_path() / "tune-test-XXXXXX";
  const std::string made = ::mkdtemp(pattern.data());
  ::setenv("TUNE_TEST_STORAGE", made.c_str(), 1);
  return made;
}

inline tune::RunOptions quiet_options(tune::Space space, int num_samples) {
  static int number = 0;
  tune::RunOptions options{.metric = "loss", .space = std::move(space), .num_samples = num_samples};
  options.name = "experiment" + std::to_string(++number);
  options.seed = 7;
  options.verbose = 0;
  options.storage_path = tune_storage();
  options.durability = tune::Durability::relaxed;
  return options;
}

inline std::int64_t iterations(const tune::TrialResult& result) {
  return result.metrics.at("training_iteration").integer();
}

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Waits until `count` trials of the experiment have started; false after 20 s.
inline bool wait_for_trials(std::int64_t count) {
  const auto context = tune::get_context();
  const fs::path marks = fs::path(context.directory).parent_path() / "started";
  fs::create_directories(marks);
  std::ofstream(marks / std::to_string(context.trial)).put('x');
  const double deadline = steady_seconds() + 20;
  for (;;) {
    if (std::distance(fs::directory_iterator(marks), fs::directory_iterator()) >= count)
      return true;
    if (steady_seconds() > deadline) return false;
    ::poll(nullptr, 0, 1);
  }
}

// The largest number of trials that ran at one time, from their metrics "begin" and "end".
inline int most_at_once(const tune::ResultGrid& results) {
  std::vector<std::pair<double, int>> changes;
  for (const auto& result : results.all()) {
    if (!result.metrics.contains("end")) continue;
    changes.emplace_back(result.metrics.at("begin").number(), 1);
    changes.emplace_back(result.metrics.at("end").number(), -1);
  }
  std::sort(changes.begin(), changes.end());
  int live = 0;
  int most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, live += change);
  return most;
}

}  // namespace mobula::testing
