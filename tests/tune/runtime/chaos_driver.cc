// The controller of the chaos test: runs or continues a PBT, HyperBand, or ASHA experiment on a
// cluster, and prints a line per report: "report TRIAL PROCESS".
// Usage: tune_chaos_driver STORAGE pbt|asha|hyperband|live|gang TRIALS
//          [relaxed] [license] [once] [verbose]
//   live: every trial waits until all trials have started
//   gang: every trial has workers on three nodes, and its reports name their number
//   once: a failed trial is not repeated
//   license: a trial needs one of the custom resource "license"
//   verbose: the table of progress on stderr
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include <mobula/tune.h>

namespace tune = mobula::tune;

namespace {

constexpr int last_step = 8;

void resumable(const tune::Config& config) {
  const std::string state = tune::get_context().directory + "/state";
  int step = 0;
  if (const auto last = tune::get_checkpoint()) std::ifstream(last->path + "/step") >> step;
  while (step < last_step) {
    std::filesystem::create_directories(state);
    std::ofstream(state + "/step") << ++step;
    tune::report({{"score", config.number("lr") * step}, {"step", step}, {"process", ::getpid()}},
                 {.checkpoint = "state"});
  }
}

void wait_for_all(const tune::Config& config) {
  namespace fs = std::filesystem;
  const auto context = tune::get_context();
  const fs::path marks = fs::path(context.directory).parent_path() / "started";
  fs::create_directories(marks);
  std::ofstream(marks / std::to_string(context.trial)).put('x');
  const auto count = static_cast<std::int64_t>(config.number("count"));
  while (std::distance(fs::directory_iterator(marks), fs::directory_iterator()) < count)
    ::poll(nullptr, 0, 500);
  tune::report({{"score", 1}, {"step", 1}, {"process", ::getpid()}});
}

struct Member {
  std::string node() { return mobula::current().node_id; }
};

void gang(const tune::Config& config) {
  auto members = tune::workers<Member>(3);
  const std::string state = tune::get_context().directory + "/state";
  int step = 0;
  if (const auto last = tune::get_checkpoint()) std::ifstream(last->path + "/step") >> step;
  while (step < last_step) {
    std::vector<mobula::ObjectRef<std::string>> refs;
    for (auto& member : members) refs.push_back(member.call<&Member::node>());
    const auto names = mobula::get(refs);
    const std::set<std::string> nodes(names.begin(), names.end());
    std::filesystem::create_directories(state);
    std::ofstream(state + "/step") << ++step;
    tune::report({{"score", config.number("lr") * step},
                  {"step", step},
                  {"process", ::getpid()},
                  {"nodes", static_cast<int>(nodes.size())}},
                 {.checkpoint = "state"});
    ::poll(nullptr, 0, 100);
  }
}

// Saves on request.
struct Counter {
  void setup(const tune::Config& config) { slope_ = config.number("lr"); }
  tune::Metrics step() {
    ++steps_;
    return {{"score", slope_ * steps_},
            {"step", steps_},
            {"process", ::getpid()},
            {"done", steps_ == last_step}};
  }
  void save(const std::string& directory) const { std::ofstream(directory + "/n") << steps_; }
  void load(const std::string& directory) { std::ifstream(directory + "/n") >> steps_; }

 private:
  double slope_ = 0;
  int steps_ = 0;
};

struct Printer final : tune::Callback {
  void on_trial_result(std::int64_t trial, const tune::Metrics& metrics) override {
    std::cout << "report " << trial << " " << metrics.at("process").integer();
    if (metrics.contains("nodes")) std::cout << " nodes " << metrics.at("nodes").integer();
    std::cout << std::endl;
  }
};

}  // namespace

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  const std::string rule = argv[2];
  tune::RunOptions options{.metric = "score", .mode = tune::Mode::max};
  options.num_samples = std::atoi(argv[3]);
  options.name = rule;
  options.seed = 11;
  options.space = {{"lr", tune::uniform(0.1, 1)}};
  options.storage_path = argv[1];
  options.resume = tune::Resume::automatic;
  options.verbose = 0;
  options.max_concurrent_trials = 4;
  options.failure.max_failures = -1;
  options.checkpoint.num_to_keep = 2;
  options.keep_events = true;  // for a replay of the whole run
  for (int i = 4; i < argc; ++i) {
    if (argv[i] == std::string("relaxed")) options.durability = tune::Durability::relaxed;
    if (argv[i] == std::string("once")) options.failure.max_failures = 0;
    if (argv[i] == std::string("verbose")) options.verbose = 1;
    if (argv[i] == std::string("license"))
      options.resources_per_trial = {{"cpu", 1}, {"license", 1}};
  }
  options.callbacks = {std::make_shared<Printer>()};
  if (rule == "live") {
    options.max_concurrent_trials = {};
    options.resources_per_trial = {{"cpu", 0.01}};
    options.space = {{"count", tune::constant(options.num_samples)}};
  } else if (rule == "gang") {
    options.max_concurrent_trials = 2;
    options.resources_per_trial = tune::PlacementGroupFactory{
        {{}, {{"CPU", 1}}, {{"CPU", 1}}, {{"CPU", 1}}}, mobula::Strategy::strict_spread};
  } else if (rule == "asha") {
    options.scheduler = tune::AsyncHyperBandScheduler({.max_t = last_step, .reduction_factor = 2});
  } else if (rule == "hyperband") {
    options.scheduler = tune::HyperBandScheduler({.max_t = last_step});
  } else {
    options.scheduler =
        tune::PopulationBasedTraining({.time_attr = "training_iteration",
                                       .perturbation_interval = 2,
                                       .hyperparam_mutations = {{"lr", tune::uniform(0.1, 1)}}});
  }
  const auto results = rule == "live"        ? tune::run<wait_for_all>(options)
                       : rule == "hyperband" ? tune::run<Counter>(options)
                       : rule == "gang"      ? tune::run<gang>(options)
                                             : tune::run<resumable>(options);
  for (const auto& result : results.all())
    std::cout << "result " << result.trial << " " << result.metrics.at("step") << " "
              << result.metrics.at("training_iteration") << " '" << result.error << "'\n";
}
