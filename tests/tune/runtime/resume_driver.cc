// Runs or resumes a PBT or ASHA experiment, and ends itself by SIGKILL at a given report.
// Usage: tune_resume_driver STORAGE pbt|asha KILL_AT
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <mobula/tune.h>

namespace tune = mobula::tune;

namespace {

void resumable(const tune::Config& config) {
  const std::string state = tune::get_context().directory + "/state";
  int step = 0;
  if (const auto last = tune::get_checkpoint()) std::ifstream(last->path + "/step") >> step;
  while (step < 8) {
    std::filesystem::create_directories(state);
    std::ofstream(state + "/step") << ++step;
    tune::report({{"score", config.number("lr") * step}, {"step", step}}, {.checkpoint = "state"});
  }
}

struct Killer final : tune::Callback {
  explicit Killer(int at) : left(at) {}
  void on_trial_result(std::int64_t /*trial*/, const tune::Metrics& /*metrics*/) override {
    if (--left == 0) ::kill(::getpid(), SIGKILL);
  }
  int left;
};

}  // namespace

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv, {.num_cpus = 3});
  const std::string rule = argv[2];
  tune::RunOptions options{.metric = "score", .mode = tune::Mode::max, .num_samples = 5};
  options.name = rule;
  options.seed = 11;
  options.space = {{"lr", tune::uniform(0.1, 1)}};
  options.storage_path = argv[1];
  options.resume = tune::Resume::automatic;
  options.verbose = 0;
  options.callbacks = {std::make_shared<Killer>(std::atoi(argv[3]))};
  if (rule == "pbt")
    options.scheduler =
        tune::PopulationBasedTraining({.time_attr = "training_iteration",
                                       .perturbation_interval = 2,
                                       .hyperparam_mutations = {{"lr", tune::uniform(0.1, 1)}}});
  else
    options.scheduler = tune::AsyncHyperBandScheduler({.max_t = 8, .reduction_factor = 2});
  const auto results = tune::run<resumable>(options);
  for (const auto& result : results.all())
    std::cout << result.trial << " " << result.metrics.at("step") << " "
              << result.metrics.at("training_iteration") << " '" << result.error << "'\n";
}
