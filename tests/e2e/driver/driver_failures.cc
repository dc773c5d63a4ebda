#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::seconds;

int dies_first(int times) {
  if (mobula::current().attempt < times) ::kill(::getpid(), SIGKILL);
  return mobula::current().attempt;
}

int dies() {
  std::cerr << "these are its last words" << std::endl;
  ::kill(::getpid(), SIGKILL);
  return 0;
}

int exits() { ::_exit(42); }

int next(int x) { return x + 1; }

int crashes(const Words&) {
  Report report;
  report.equal("attempt that ran", mobula::get(mobula::task<dies_first>.remote(2), seconds(60)), 2);

  try {
    mobula::get(mobula::task<dies>.options({.max_retries = 0}).remote(), seconds(60));
    report.fail("a task that was killed gave a value");
  } catch (const mobula::WorkerCrashedError& error) {
    report.equal("signal", error.signal(), SIGKILL);
    report.holds("the error has its last log lines",
                 error.log_tail().find("these are its last words") != std::string::npos);
  }
  try {
    mobula::get(mobula::task<exits>.options({.max_retries = 0}).remote(), seconds(60));
    report.fail("a task whose process left gave a value");
  } catch (const mobula::WorkerCrashedError& error) {
    report.equal("exit code", error.exit_code(), 42);
  }

  auto actor = mobula::actor<Counter>.options({.max_restarts = 1, .max_task_retries = 2}).remote();
  report.equal("before", mobula::get(actor.call<&Counter::add>(5), seconds(60)), 5);
  const auto death = actor.method<&Counter::die>().options({.max_task_retries = 0}).remote();
  report.holds("the call that killed it fails", !mobula::try_get(death, seconds(60)).has_value());
  report.holds("restarted", mobula::get(actor.call<&Counter::restarted>(), seconds(60)));
  report.equal("fresh state", mobula::get(actor.call<&Counter::add>(5), seconds(60)), 5);
  return report.exit_code();
}

// Works in rounds until the test sends "stop", and prints each round.
int steady(const Words&) {
  Report report;
  const mobula::TaskOptions for_ever{
      .num_cpus = 0.5, .scheduling = mobula::Spread{}, .max_retries = -1};
  auto counter = mobula::actor<Counter>
                     .options({.name = "kept", .name_space = "e2e",
                               .lifetime = mobula::Lifetime::detached, .max_restarts = -1,
                               .max_task_retries = -1})
                     .remote();
  std::atomic<bool> stopped = false;
  std::thread listener([&stopped] { stopped = hear() == "stop"; });
  for (int round = 1; !stopped; ++round) {
    std::vector<mobula::ObjectRef<int>> refs;
    for (int i = 0; i < 20; ++i) refs.push_back(mobula::task<next>.options(for_ever).remote(i));
    for (int i = 0; i < 20; ++i) {
      report.equal("task", mobula::get(refs[static_cast<std::size_t>(i)], seconds(60)), i + 1);
    }
    mobula::get(counter.call<&Counter::add>(1), seconds(60));
    tell("round " + std::to_string(round) + ";");
  }
  listener.join();
  mobula::kill(counter);
  return report.exit_code();
}

int never_ends() {
  for (;;) ::pause();
}

// Prints the error of a call that does not end.
int awaits_error(const Words&) {
  const auto call = mobula::task<never_ends>.options({.max_retries = -1}).remote();
  try {
    mobula::get(call);
  } catch (const mobula::Error& error) {
    tell(std::string("error: ") + error.what());
  }
  return 0;
}

// An actor on the named node, and the same actor on another node after the test has killed the
// first.
int moves(const Words& arguments) {
  Report report;
  const auto& doomed = arguments.at(0);
  auto actor = mobula::actor<Counter>
                   .options({.scheduling = mobula::NodeAffinity{doomed, true}, .max_restarts = -1,
                             .max_task_retries = -1})
                   .remote();
  report.equal("node", mobula::get(actor.call<&Counter::node>(), seconds(30)), doomed);
  const mobula::TaskOptions there{.scheduling = mobula::NodeAffinity{doomed, true},
                                  .max_retries = -1};
  const auto block = mobula::task<until_cancelled>.options(there).remote();
  tell("ready");
  hear();
  // The actor's process outlives its agent briefly and may still reply.
  const auto bound = std::chrono::steady_clock::now() + seconds(60);
  std::string node = doomed;
  while (node == doomed && std::chrono::steady_clock::now() < bound) {
    node = mobula::get(actor.call<&Counter::node>(), seconds(60));
  }
  report.holds("another node", node != doomed);
  report.holds("restarted", mobula::get(actor.call<&Counter::restarted>(), seconds(60)));
  report.equal("task after", mobula::get(mobula::task<next>.options(there).remote(1), seconds(60)),
               2);
  mobula::cancel(block);
  return report.exit_code();
}

int first_of(mobula::View<std::vector<double>> block) { return static_cast<int>(block[0]); }

// Large values outlive the agent in whose store they were.
int keeps_values(const Words&) {
  Report report;
  std::vector<mobula::ObjectRef<std::vector<double>>> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(mobula::put(std::vector<double>(1 << 17, i)));
  report.equal("before", mobula::get(blocks[0], seconds(30))[0], 0.0);
  const mobula::TaskOptions for_ever{.max_retries = -1};
  report.equal("read by a task",
               mobula::get(mobula::task<first_of>.options(for_ever).remote(blocks[1]), seconds(60)),
               1);
  tell("ready");
  hear();
  for (int i = 0; i < 4; ++i) {
    const auto& block = blocks[static_cast<std::size_t>(i)];
    report.equal("after", mobula::get(block, seconds(60)).back(), static_cast<double>(i));
    const auto read = mobula::task<first_of>.options(for_ever).remote(block);
    report.equal("read by a task after", mobula::get(read, seconds(60)), i);
  }
  return report.exit_code();
}

std::vector<double> block_of(double value) { return std::vector<double>(1 << 14, value); }
double sum_of_ends(const std::vector<double>& block) { return block.front() + block.back(); }

// Rounds of retryable tasks whose large results are stored on a node that the test kills. Tasks on
// two other nodes read them. Arguments: the node of the results, and the nodes of the readers.
int reads_results(const Words& arguments) {
  Report report;
  const mobula::TaskOptions makers{.num_cpus = 0.25,
                                   .scheduling = mobula::NodeAffinity{arguments.at(0), true},
                                   .max_retries = -1};
  std::atomic<bool> stopped = false;
  std::thread listener([&stopped] { stopped = hear() == "stop"; });
  for (int round = 1; !stopped; ++round) {
    std::vector<mobula::ObjectRef<double>> sums;
    for (int i = 0; i < 12; ++i) {
      const auto block = mobula::task<block_of>.options(makers).remote(i);
      for (std::size_t reader = 1; reader < arguments.size(); ++reader) {
        const mobula::NodeAffinity there{arguments.at(reader)};
        sums.push_back(mobula::task<sum_of_ends>
                           .options({.num_cpus = 0.25, .scheduling = there, .max_retries = -1})
                           .remote(block));
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto sum = mobula::try_get(sums[i], seconds(60));
      report.equal("sum", sum ? sum.value() : -1, 2.0 * static_cast<double>(i / 2));
    }
    tell("round " + std::to_string(round) + ";");
  }
  listener.join();
  return report.exit_code();
}

// Holds tasks, an actor, and objects until it is killed.
int holds(const Words&) {
  auto actor = mobula::actor<Counter>.remote();
  mobula::get(actor.call<&Counter::add>(1), seconds(30));
  const auto large = mobula::put(std::vector<double>(1 << 20));
  std::vector<mobula::ObjectRef<int>> running;
  for (int i = 0; i < 2; ++i) running.push_back(mobula::task<until_cancelled>.remote());
  tell("ready");
  mobula::get(running);
  return 1;
}

int next_after_a_death(int x) {
  if (mobula::current().attempt == 0) ::kill(::getpid(), SIGKILL);
  return x + 1;
}

// Refs of tasks and of two actors in one queue, while executors and an actor's process are killed,
// and the test kills an agent and the head. Arguments: the node of that agent, and the number of
// refs.
int completes(const Words& arguments) {
  Report report;
  const mobula::TaskOptions for_ever{.num_cpus = 0.25, .max_retries = -1};
  const std::size_t count_of_refs = std::stoul(arguments.at(1));
  const std::size_t tasks = count_of_refs / 10 * 9, calls = count_of_refs / 20;
  auto doomed = mobula::actor<Counter>.remote();
  auto restarted =
      mobula::actor<Counter>
          .options({.scheduling = mobula::NodeAffinity{arguments.at(0), true}, .max_restarts = -1,
                    .max_task_retries = -1})
          .remote();
  const auto doomed_pid = mobula::get(doomed.call<&Counter::pid>(), seconds(30));
  mobula::get(restarted.call<&Counter::add>(1), seconds(30));
  std::vector<mobula::ObjectRef<int>> refs;
  mobula::CompletionQueue queue;
  const auto add = [&](mobula::ObjectRef<int> ref) {
    queue.add(ref, refs.size());
    refs.push_back(std::move(ref));
  };
  for (std::size_t i = 0; i < tasks; ++i) {
    const int x = static_cast<int>(i);
    add(i % 1'000 == 500 ? mobula::task<next_after_a_death>.options(for_ever).remote(x)
                         : mobula::task<next>.options(for_ever).remote(x));
  }
  for (std::size_t i = 0; i < calls; ++i) {
    if (i == calls / 2) ::kill(static_cast<pid_t>(doomed_pid), SIGKILL);
    add(doomed.call<&Counter::add>(1));
    add(restarted.call<&Counter::add>(1));
  }
  tell("ready");
  std::vector<int> seen(refs.size());
  std::uint64_t tokens[64];
  std::size_t taken = 0, errors = 0;
  while (queue.outstanding() > 0) {
    const std::size_t count = queue.take(tokens, seconds(60));
    if (count == 0) break;
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = tokens[k];
      ++seen[i];
      const auto result = mobula::try_get(refs[i], mobula::Duration::zero());
      if (i < tasks) {
        report.equal("value", result ? result.value() : -1, static_cast<int>(i) + 1);
      } else if (!result) {
        ++errors;
        report.holds("no call waits", (i - tasks) % 2 == 0);
      }
    }
    if (taken / 1000 != (taken + count) / 1000) tell("taken " + std::to_string(taken + count));
    taken += count;
  }
  report.equal("outstanding", queue.outstanding(), std::size_t{0});
  report.equal("refs reported once",
               static_cast<std::size_t>(std::count(seen.begin(), seen.end(), 1)), refs.size());
  report.holds("calls of the killed actor fail", errors > 0 && errors <= calls);
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> failure_scenarios() {
  return {{"crashes", &crashes},
          {"steady", &steady},
          {"awaits_error", &awaits_error},
          {"moves", &moves},
          {"holds", &holds},
          {"keeps_values", &keeps_values},
          {"reads_results", &reads_results},
          {"completes", &completes}};
}

}  // namespace mobula::e2e
