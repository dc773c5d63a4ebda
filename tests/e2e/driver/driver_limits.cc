#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

int how_many(std::vector<mobula::ObjectRef<int>> refs) { return static_cast<int>(refs.size()); }

int rests(int for_ms) {
  std::this_thread::sleep_for(milliseconds(for_ms));
  return 1;
}

// Drops many exported refs at once.
int drops_refs(const Words& arguments) {
  Report report;
  const int count = std::stoi(arguments.at(0));
  std::vector<mobula::ObjectRef<int>> refs;
  for (int i = 0; i < count; ++i) refs.push_back(mobula::put(i));
  report.equal("refs in a value", mobula::get(mobula::task<how_many>.remote(refs), seconds(60)),
               count);
  tell("held");
  hear();
  refs.clear();
  const auto begin = std::chrono::steady_clock::now();
  report.equal("a task after it", mobula::get(mobula::task<one>.remote(), seconds(60)), 1);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  tell("dropped; the next task took " + std::to_string(took.count()) + " ms");
  hear();
  return report.exit_code();
}

// Makes the given number of actors and calls each once. Releases the actors that have replied, to
// free capacity for the others. Prints how many replied at first.
int makes_actors(const Words& arguments) {
  Report report;
  const auto count = static_cast<std::size_t>(std::stoi(arguments.at(0)));
  std::vector<std::optional<mobula::ActorHandle<Counter>>> actors;
  std::vector<mobula::ObjectRef<int>> answers;
  for (std::size_t i = 0; i < count; ++i) {
    actors.push_back(mobula::actor<Counter>.options({.num_cpus = 0}).remote());
    answers.push_back(actors.back()->call<&Counter::add>(static_cast<int>(i)));
  }
  const auto until = std::chrono::steady_clock::now() + seconds(90);
  std::size_t answered = 0;
  for (bool first = true; answered < count && std::chrono::steady_clock::now() < until;
       first = false) {
    const auto [ready, pending] = mobula::wait(
        answers,
        {.num_returns = static_cast<int>(answers.size()), .timeout = seconds(first ? 10 : 1)});
    for (std::size_t i = 0; i < count; ++i) {
      const auto is_it = [&](const auto& ref) { return ref.id() == answers[i].id(); };
      if (!actors[i] || std::none_of(ready.begin(), ready.end(), is_it)) continue;
      report.equal("answer", mobula::get(answers[i], seconds(10)), static_cast<int>(i));
      actors[i].reset();
      ++answered;
    }
    if (first) tell("answered at first: " + std::to_string(answered));
  }
  report.equal("answered", answered, count);
  report.equal("a task after it", mobula::get(mobula::task<one>.remote(), seconds(60)), 1);
  return report.exit_code();
}

// More concurrent tasks than processes can be started. All of them complete.
int makes_processes(const Words& arguments) {
  Report report;
  std::vector<mobula::ObjectRef<int>> refs;
  for (int i = 0; i < std::stoi(arguments.at(0)); ++i) {
    refs.push_back(mobula::task<rests>.options({.max_retries = -1}).remote(300));
  }
  int answered = 0;
  for (auto& ref : refs) {
    const auto answer = mobula::try_get(ref, seconds(60));
    if (answer.has_value()) {
      ++answered;
    } else {
      tell(std::string("error: ") + answer.error().what());
    }
  }
  tell("answered: " + std::to_string(answered));
  return report.exit_code();
}

class Turnstile {
 public:
  int wait(const std::string& file) {
    while (!std::filesystem::exists(file)) std::this_thread::yield();
    return ++calls_;
  }
  int next() { return ++calls_; }

 private:
  int calls_ = 0;
};

// Arguments: a file that does not exist yet. Makes more calls than the executor's queue holds, on
// an actor that waits for the file.
int calls_beyond_limit(const Words& arguments) {
  Report report;
  constexpr int count = 103'000;
  auto actor = mobula::actor<Turnstile>.remote();
  report.equal("first", mobula::get(actor.call<&Turnstile::next>(), seconds(30)), 1);
  std::vector<mobula::ObjectRef<int>> turns{actor.call<&Turnstile::wait>(arguments.at(0))};
  while (static_cast<int>(turns.size()) < count) turns.push_back(actor.call<&Turnstile::next>());
  tell("submitted");
  hear();
  std::ofstream(arguments.at(0)) << "go on" << std::endl;
  int in_order = 0;
  for (int i = 0; i < count; ++i)
    in_order += mobula::get(turns[static_cast<std::size_t>(i)], seconds(100)) == i + 2;
  report.equal("calls that started in their order", in_order, count);
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> limit_scenarios() {
  return {{"drops_refs", &drops_refs},
          {"makes_actors", &makes_actors},
          {"makes_processes", &makes_processes},
          {"calls_beyond_limit", &calls_beyond_limit}};
}

}  // namespace mobula::e2e
