// Runs or resumes a PBT or ASHA experiment, or ASHA with a searcher of the user, and ends itself by
// SIGKILL at a given report.
// Usage: tune_resume_driver STORAGE pbt|asha|user KILL_AT
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

// A searcher of the user whose state is saved.
struct Counting final : tune::Searcher {
  Suggestion ask(std::int64_t /*trial*/, tune::RandomStream& /*random*/) override {
    return {.kind = Suggestion::Kind::config, .config = {{"lr", 0.1 * ++suggested}}};
  }
  void tell(std::int64_t /*trial*/, const tune::Metrics& /*metrics*/,
            tune::State /*state*/) override {}
  std::string save() const override { return std::to_string(suggested); }
  void load(const std::string& state) override { suggested = std::stoi(state); }
  int suggested = 0;
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
  if (rule == "user") options.search_alg = std::make_shared<Counting>();
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
              << result.metrics.at("training_iteration") << " '" << result.error << "' "
              << result.config << "\n";
}
