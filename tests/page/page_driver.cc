// Gives the web page something to show: calls of several names, failures, waiting requests,
// actors, placement groups, and transfers. Names and output contain markup. Runs until its stdin
// ends.
#include <mobula/mobula.h>
#include <mobula/tune.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Block = std::vector<std::int32_t>;

constexpr const char* hostile_name = "<img src=x onerror=document.title='owned'>";

int work(int ms) {
  std::this_thread::sleep_for(milliseconds(ms));
  return ms;
}

int print_markup() {
  std::puts("<script>document.title='owned'</script> & a line with markup");
  std::fflush(stdout);
  return 0;
}

int fail() { throw std::runtime_error("loss is <b>not a number</b> after step 812"); }

Block make_block() { return Block(1 << 20, 7); }
std::int64_t size_of(const Block& block) { return static_cast<std::int64_t>(block.size()); }

class Trainer {
 public:
  int step(int ms) { return work(ms); }
};

// Trials that end soon; every seventh fails.
void train(const mobula::tune::Config& config) {
  const double rate = std::log10(config.number("lr"));
  const auto trial = mobula::tune::get_context().trial;
  for (int step = 1; step <= 3; ++step) {
    if (trial % 7 == 5 && step == 2) throw std::runtime_error("loss is <b>not a number</b>");
    const double width = static_cast<double>(config.integer("width"));
    mobula::tune::report(
        {{"loss", std::pow(rate + 2.5, 2) + std::abs(width - 64) / 80 + 0.5 / step}});
  }
}

// Trials that run until the driver ends.
void train_long(const mobula::tune::Config& config) {
  mobula::tune::report({{"accuracy", config.number("dropout")}});
  std::this_thread::sleep_for(seconds(600));
}

mobula::tune::RunOptions experiment(const std::string& name, int samples) {
  mobula::tune::RunOptions options{.num_samples = samples, .resources_per_trial = {{"cpu", 0.05}}};
  options.name = name;
  options.verbose = 0;
  options.durability = mobula::tune::Durability::relaxed;
  return options;
}

// Two experiments: one ends, and one waits for resources that no node has left.
void search() {
  namespace tune = mobula::tune;
  auto options = experiment("width <b>search", 24);
  options.metric = "loss";
  options.space = {{"lr", tune::loguniform(1e-5, 1)}, {"width", tune::randint(8, 257)}};
  options.search_alg = tune::TPESearch();
  options.max_concurrent_trials = 4;
  options.reuse_actors = tune::ReuseActors::always;
  options.seed = 7;
  tune::run<train>(options);
  auto longer = experiment("dropout", 40);
  longer.metric = "accuracy";
  longer.mode = tune::Mode::max;
  longer.space = {{"dropout", tune::uniform(0, 0.5)}};
  longer.max_concurrent_trials = 3;
  tune::run<train_long>(longer);
}

// Markup, a change of direction, a long name, a byte of zero, and bytes that are no UTF-8.
std::vector<std::string> hostile_names() {
  return {hostile_name, "\u202egpj.exe", std::string(10'240, 'n'), std::string("nul\0byte", 8),
          "no utf8 \xff\xc3("};
}

// Uses the names that the interfaces accept.
void use_hostile_names(std::vector<mobula::ActorHandle<Trainer>>& actors) {
  const auto attempt = [](const auto& use) {
    try {
      use();
    } catch (const std::exception& error) {
      std::cerr << "rejected: " << std::string(error.what()).substr(0, 200) << std::endl;
    }
  };
  for (const std::string& name : hostile_names()) {
    attempt([&] {
      mobula::get(mobula::task<work>.options({.name = name, .num_cpus = 0.25}).remote(1),
                  seconds(60));
    });
    attempt([&] {
      actors.push_back(mobula::actor<Trainer>.options({.name = name, .num_cpus = 0}).remote());
      mobula::get(actors.back().call<&Trainer::step>(1), seconds(60));
    });
    attempt([&] {
      const auto group =
          mobula::placement_group({{{"CPU", 0.01}}}, mobula::Strategy::pack, {.name = name});
      (void)group.wait(seconds(60));
    });
  }
}

bool stdin_ended() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  char byte = 0;
  return ::poll(&input, 1, 0) > 0 && ::read(STDIN_FILENO, &byte, 1) <= 0;
}

}  // namespace

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv, {.job_name = "train <b>resnet</b>"});
  std::vector<mobula::ObjectRef<int>> waiting;

  auto trainer =
      mobula::actor<Trainer>.options({.name = "trainer", .num_cpus = 0, .num_gpus = 1}).remote();
  auto halves = mobula::actor<Trainer>.options({.num_cpus = 0, .num_gpus = 0.5}).remote();
  mobula::get(trainer.call<&Trainer::step>(1), seconds(60));
  mobula::get(halves.call<&Trainer::step>(1), seconds(60));
  auto lost = mobula::actor<Trainer>.options({.num_cpus = 0}).remote();
  mobula::get(lost.call<&Trainer::step>(1), seconds(60));
  mobula::kill(lost);

  const auto group = mobula::placement_group({{{"GPU", 1}}, {{"CPU", 1}}});
  if (!group.wait(seconds(60))) return 1;
  const auto large = mobula::placement_group({{{"CPU", 4}}, {{"CPU", 4}}, {{"CPU", 4}}});

  std::vector<mobula::ObjectRef<int>> failed;
  for (int i = 0; i < 3; ++i)
    failed.push_back(mobula::task<fail>.options({.name = "evaluate"}).remote());
  mobula::get(mobula::task<work>.options({.name = hostile_name}).remote(20), seconds(60));
  mobula::get(mobula::task<print_markup>.remote(), seconds(60));

  std::vector<mobula::ActorHandle<Trainer>> hostile_actors;
  use_hostile_names(hostile_actors);

  const auto block = mobula::task<make_block>.options({.label_selector = {{"zone", "a"}}}).remote();
  mobula::get(mobula::task<size_of>.options({.label_selector = {{"zone", "b"}}}).remote(block),
              seconds(60));

  waiting.push_back(
      mobula::task<work>.options({.name = "too large for any node", .num_gpus = 64}).remote(1));
  for (int i = 0; i < 40; ++i) {
    waiting.push_back(mobula::task<work>
                          .options({.name = "preprocess",
                                    .num_cpus = 2,
                                    .label_selector = {{"zone", "b"}}})
                          .remote(600'000));
  }

  std::thread(search).detach();  // the process ends by a signal
  std::cout << "ready" << std::endl;
  constexpr const char* names[] = {"load", "augment", "forward", hostile_name};
  for (int round = 0; !stdin_ended(); ++round) {
    std::vector<mobula::ObjectRef<int>> steps;
    for (int i = 0; i < 6; ++i) {
      const int ms = 20 + (round * 37 + i * 53) % 400;
      steps.push_back(
          mobula::task<work>
              .options({.name = names[(round + i) % 4],
                        .num_cpus = 0.25,
                        .label_selector = {{"zone", "a"}}})
              .remote(ms));
    }
    steps.push_back(trainer.call<&Trainer::step>(150));
    steps.push_back(halves.call<&Trainer::step>(90));
    for (auto& step : steps) mobula::get(step, seconds(60));
    std::this_thread::sleep_for(milliseconds(50));
  }
  return 0;
}
