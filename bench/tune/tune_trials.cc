// Measures experiments with ten reports per trial: trivial trials per second with a new process per
// trial and with reused processes, the memory of the driver, and trials that all live at one time:
// none of them ends before all have started. Prints one line per figure: name, value, unit.
//   mobula-bench-tune-trials DIRECTORY [TRIALS [LIVE]]   (default: 200 trials, 0 live ones)
// Exits with 1 if a trial fails, or if the driver needs more than 60 MiB and 300 bytes per trial.
#include <fcntl.h>
#include <fmt/format.h>
#include <mobula/mobula.h>
#include <mobula/tune.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace tune = mobula::tune;

void trial(const tune::Config& config) {
  for (int step = 0; step < 10; ++step) tune::report({{"loss", config.number("x") * step}});
}

// Ends when `count` trials have started.
void live_trial(const tune::Config& config) {
  const auto count = static_cast<std::uintmax_t>(config.number("count"));
  const std::string file = config.text("file");
  const int started = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (started < 0 || ::write(started, "x", 1) != 1) std::abort();
  while (std::filesystem::file_size(file) < count) ::poll(nullptr, 0, 200);
  ::close(started);
  tune::report({{"loss", 0}});
}

// "VmRSS" or "VmHWM" of this process.
double memory_mib(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(field + ":")) return std::atof(line.c_str() + field.size() + 1) / 1024;
  return 0;
}

// False if the driver's largest memory is above its limit for all trials so far.
bool report_memory(const std::string& name, int trials) {
  static int all_trials = 0;
  all_trials += trials;
  const double most = memory_mib("VmHWM");
  const double limit = 60 + 300.0 * all_trials / (1 << 20);
  fmt::print("tune_driver_memory_{} {:.1f} MiB (largest {:.1f}, limit {:.1f})\n", name,
             memory_mib("VmRSS"), most, limit);
  std::fflush(stdout);
  return most <= limit;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

tune::RunOptions options_of(const std::string& directory, const std::string& name, int trials) {
  tune::RunOptions options{.metric = "loss", .num_samples = trials};
  options.name = name;
  options.storage_path = directory;
  options.durability = tune::Durability::relaxed;
  options.verbose = 0;
  std::filesystem::remove_all(directory + "/" + name);
  return options;
}

bool measure(const std::string& directory, int trials, tune::ReuseActors reuse) {
  const bool reuses = reuse == tune::ReuseActors::always;
  auto options = options_of(directory, reuses ? "reused" : "fresh", trials);
  options.space = {{"x", tune::uniform(0, 1)}};
  options.reuse_actors = reuse;
  const auto begin = std::chrono::steady_clock::now();
  const auto results = tune::run<trial>(options);
  const double seconds = seconds_since(begin);
  if (results.all().size() != static_cast<std::size_t>(trials)) std::abort();
  fmt::print("tune_trials_{} {:.1f} /s\n", options.name, trials / seconds);
  return report_memory(options.name, trials);
}

bool measure_live(const std::string& directory, int count) {
  auto options = options_of(directory, "live", count);
  options.space = {{"count", tune::constant(count)},
                   {"file", tune::constant(directory + "/started")}};
  std::filesystem::remove(directory + "/started");
  options.resources_per_trial = {{"cpu", 0.001}};
  const auto begin = std::chrono::steady_clock::now();
  const auto results = tune::run<live_trial>(options);
  for (const auto& result : results.all())
    if (!result.error.empty()) {
      fmt::print(stderr, "trial {}: {}\n", result.trial, result.error);
      std::exit(1);
    }
  fmt::print("tune_live_trials {:.1f} s ({} at one time)\n", seconds_since(begin), count);
  return report_memory("live", count);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: mobula-bench-tune-trials DIRECTORY [TRIALS [LIVE]]\n");
    return 2;
  }
  const std::string directory = argv[1];
  const int trials = argc > 2 ? std::atoi(argv[2]) : 200;
  const int live = argc > 3 ? std::atoi(argv[3]) : 0;
  const auto cluster = mobula::init(argc, argv, {});
  bool within_limit = true;
  if (trials > 0) {
    within_limit = measure(directory, trials, tune::ReuseActors::never) && within_limit;
    within_limit = measure(directory, trials, tune::ReuseActors::always) && within_limit;
  }
  if (live > 0) within_limit = measure_live(directory, live) && within_limit;
  return within_limit ? 0 : 1;
}
