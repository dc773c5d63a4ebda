// Measures experiments of trivial trials with ten reports each: trials per second with a new
// process per trial and with reused processes. Prints one line per figure: name, value, unit.
//   mobula-bench-tune-trials DIRECTORY [TRIALS]      (default: 200 trials)
#include <fmt/format.h>
#include <mobula/mobula.h>
#include <mobula/tune.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

namespace tune = mobula::tune;

void trial(const tune::Config& config) {
  for (int step = 0; step < 10; ++step) tune::report({{"loss", config.number("x") * step}});
}

void measure(const std::string& directory, int trials, tune::ReuseActors reuse) {
  tune::RunOptions options{
      .metric = "loss", .space = {{"x", tune::uniform(0, 1)}}, .num_samples = trials};
  const bool reuses = reuse == tune::ReuseActors::always;
  options.name = reuses ? "reused" : "fresh";
  options.storage_path = directory;
  options.reuse_actors = reuse;
  options.durability = tune::Durability::relaxed;
  options.verbose = 0;
  std::filesystem::remove_all(directory + "/" + options.name);
  const auto begin = std::chrono::steady_clock::now();
  const auto results = tune::run<trial>(options);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (results.all().size() != static_cast<std::size_t>(trials)) std::abort();
  fmt::print("tune_trials_{} {:.1f} /s\n", options.name, trials / seconds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: mobula-bench-tune-trials DIRECTORY [TRIALS]\n");
    return 2;
  }
  const std::string directory = argv[1];
  const int trials = argc > 2 ? std::atoi(argv[2]) : 200;
  const auto cluster = mobula::init(argc, argv, {});
  measure(directory, trials, tune::ReuseActors::never);
  measure(directory, trials, tune::ReuseActors::always);
  return 0;
}
