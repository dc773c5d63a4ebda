// Scenarios about jobs, their nodes, and their output.
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <set>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::seconds;

int prints(std::string what, int lines) {
  for (int i = 0; i < lines; ++i) std::cout << what << " " << i << "\n";
  std::cout.flush();
  return lines;
}

// The command line of this process, without separators.
std::string own_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

int childs_answer() { return 1; }

class Parent {
 public:
  int call_child() { return mobula::get(mobula::task<childs_answer>.remote(), seconds(30)); }
};

// Blocks until another process opens the pipe.
int opens_after(const std::string& pipe) {
  std::ifstream(pipe).get();
  return 1;
}

std::string node_after_a_millisecond(int) {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return mobula::current().node_id;
}

// Bursts of six tasks of 1 ms. The tasks of a burst wait for the same argument and so become ready
// together. `arguments`: number of nodes that each burst reaches, and a path for a named pipe.
int spread_bursts(const Words& arguments) {
  Report report;
  const std::string pipe = arguments.at(1);
  report.equal("a pipe", ::mkfifo(pipe.c_str(), 0600), 0);
  for (int burst = 0; burst < 3; ++burst) {
    const auto gate = mobula::task<opens_after>.remote(pipe);
    std::vector<mobula::ObjectRef<std::string>> refs;
    for (int i = 0; i < 6; ++i) {
      refs.push_back(mobula::task<node_after_a_millisecond>  //
                         .options({.scheduling = mobula::Spread{}})
                         .remote(gate));
    }
    std::ofstream(pipe).put('1');
    std::set<std::string> nodes;
    for (const auto& node : mobula::get(refs, seconds(30))) nodes.insert(node);
    report.equal("nodes with a task of the burst", nodes.size(), std::stoul(arguments.at(0)));
  }
  return report.exit_code();
}

// While another driver does the same, tasks of each see their own command line.
int sees_own_words(const Words& arguments) {
  Report report;
  report.holds("before", mobula::get(mobula::task<own_words>.remote(), seconds(30)) == own_words());
  tell("ready");
  hear();
  for (int i = 0; i < 20; ++i) {
    const auto seen = mobula::get(mobula::task<own_words>.remote(), seconds(30));
    report.holds("words", seen == own_words());
    report.holds("the argument", seen.find(arguments.at(0)) != std::string::npos);
  }
  return report.exit_code();
}

// Exits as soon as it has the result: the printed output must not be lost.
int prints_and_ends(const Words& arguments) {
  mobula::TaskOptions options;
  if (arguments.size() > 1) options.scheduling = mobula::NodeAffinity{arguments.at(1), false};
  Report report;
  const auto task = mobula::task<prints>.options(options).remote(arguments.at(0), 100);
  report.equal("lines", mobula::get(task, seconds(60)), 100);
  return report.exit_code();
}

std::size_t size_of(const std::vector<double>& values) { return values.size(); }

// Returns a value that is stored on the node `far`, after a call and an object in each direction.
std::vector<double> calls_back(std::vector<double> given, const std::string& far) {
  const mobula::TaskOptions there{.scheduling = mobula::NodeAffinity{far, false}};
  const auto size = mobula::task<size_of>.options(there).remote(mobula::put(given));
  given.resize(mobula::get(size, seconds(40)));
  return given;
}

// Calls and objects between two nodes, in both directions, over new and old executors. Prints a
// line after each round, and waits for the next. Arguments: both nodes, and the number of rounds.
int calls_between(const Words& arguments) {
  Report report;
  const mobula::TaskOptions to_second{.scheduling = mobula::NodeAffinity{arguments.at(1), false}};
  auto actor = mobula::actor<Parent>  //
                   .options({.scheduling = mobula::NodeAffinity{arguments.at(1), false}})
                   .remote();
  const std::vector<double> values(100'000, 1.5);
  for (int round = 0; round < std::stoi(arguments.at(2)); ++round) {
    const auto made = mobula::task<calls_back>.options(to_second).remote(values, arguments.at(0));
    report.holds("object of the other node", mobula::get(made, seconds(50)) == values);
    report.equal("actor", mobula::get(actor.call<&Parent::call_child>(), seconds(50)), 1);
    auto fresh = mobula::actor<Parent>
                     .options({.num_cpus = 0,
                               .scheduling = mobula::NodeAffinity{arguments.at(1), false}})
                     .remote();
    report.equal("new actor", mobula::get(fresh.call<&Parent::call_child>(), seconds(50)), 1);
    tell("round " + std::to_string(round) + ";");
    hear();
  }
  return report.exit_code();
}

int make_detached_parent(const Words&) {
  Report report;
  auto parent = mobula::actor<Parent>
                    .options({.name = "parent", .name_space = "e2e",
                              .lifetime = mobula::Lifetime::detached})
                    .remote();
  report.equal("child", mobula::get(parent.call<&Parent::call_child>(), seconds(30)), 1);
  return report.exit_code();
}

int use_detached_parent(const Words&) {
  Report report;
  auto parent = mobula::get_actor<Parent>("parent", "e2e");
  report.equal("child", mobula::get(parent.call<&Parent::call_child>(), seconds(30)), 1);
  mobula::kill(parent);
  return report.exit_code();
}

// An actor without restarts, on a node that is drained while it runs.
int stays_on_a_draining_node(const Words& arguments) {
  Report report;
  auto actor = mobula::actor<Counter>  //
                   .options({.scheduling = mobula::NodeAffinity{arguments.at(0), false}})
                   .remote();
  report.equal("before", mobula::get(actor.call<&Counter::add>(1), seconds(30)), 1);
  tell("ready");
  hear();
  try {
    mobula::get(actor.call<&Counter::add>(1), seconds(30));
    report.fail("an actor on a drained node answers after the deadline");
  } catch (const mobula::ActorDiedError& error) {
    const std::string why = error.what();
    report.holds(why.c_str(), why.find("was drained") != std::string::npos);
  }
  return report.exit_code();
}

using Kibi128 = std::vector<std::uint64_t>;

Kibi128 numbers_from(std::uint64_t first) {
  Kibi128 numbers(16'384);
  for (auto& each : numbers) each = first++;
  return numbers;
}

// results_of NODE...: makes twelve results that cannot be recomputed on each node. Prints how many
// of each are readable after the test's intervention.
int results_of(const Words& nodes) {
  constexpr std::uint64_t count = 12;
  std::map<std::string, std::vector<mobula::ObjectRef<Kibi128>>> made;
  for (const auto& node : nodes) {
    for (std::uint64_t i = 0; i < count; ++i) {
      made[node].push_back(mobula::task<numbers_from>
                               .options({.scheduling = mobula::NodeAffinity{node, false},
                                         .max_retries = 0})
                               .remote(i));
    }
    (void)mobula::wait(made[node],
                       {.num_returns = count, .timeout = seconds(60), .fetch_local = false});
  }
  tell("ready");
  hear();
  Report report;
  for (const auto& node : nodes) {
    int there = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      try {
        report.holds("its numbers", mobula::get(made[node][i], seconds(60)) == numbers_from(i));
        ++there;
      } catch (const mobula::ObjectLostError&) {
      }
    }
    tell("there " + std::to_string(there) + " of " + node);
  }
  return report.exit_code();
}

int large_object(const Words&) {
  const auto large = mobula::put(std::vector<double>(1 << 20));
  tell("ready");
  hear();
  return mobula::get(large).size() == 1 << 20 ? 0 : 1;
}

class Sentinel {
 public:
  std::string node() { return mobula::current().node_id; }
};

// PIPE: calls an actor on another node, before and after the test has cut the link to that node.
int calls_over_a_link(const Words& words) {
  Report report;
  auto sentinel = mobula::actor<Sentinel>  //
                      .options({.num_cpus = 1, .max_restarts = 1, .max_task_retries = -1})
                      .remote();
  const auto before = mobula::get(sentinel.call<&Sentinel::node>(), std::chrono::seconds(60));
  tell("before " + before);
  hold(words.at(0));
  const auto after = mobula::get(sentinel.call<&Sentinel::node>(), std::chrono::seconds(120));
  tell("after " + after);
  report.holds("another node", before != after);
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> node_scenarios() {
  return {{"calls_over_a_link", &calls_over_a_link},
          {"spread_bursts", &spread_bursts},
          {"sees_own_words", &sees_own_words},
          {"prints_and_ends", &prints_and_ends},
          {"calls_between", &calls_between},
          {"make_detached_parent", &make_detached_parent},
          {"use_detached_parent", &use_detached_parent},
          {"stays", &stays_on_a_draining_node},
          {"results_of", &results_of},
          {"large_object", &large_object}};
}

}  // namespace mobula::e2e
