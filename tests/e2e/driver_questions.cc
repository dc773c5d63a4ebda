#include <chrono>
#include <stdexcept>

#include "e2e/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::seconds;

std::string again(const std::string& text) { return text + " " + text; }
int refuse() { throw std::runtime_error("not today"); }
int idle() { return 1; }

// One task in each state, until the pipe, on a cluster of two CPUs, is written to.
int each_state(const Words& arguments) {
  Report report;
  const std::string pipe = arguments.at(0);
  const auto failed = mobula::task<refuse>.options({.name = "refuses", .max_retries = 0}).remote();
  try {
    mobula::get(failed, seconds(30));
    report.fail("a task that throws gave a value");
  } catch (const std::runtime_error&) {
  }
  const auto held = mobula::task<hold>.options({.name = "holds", .num_cpus = 2}).remote(pipe);
  const auto queued = mobula::task<idle>.options({.name = "queues", .num_cpus = 2}).remote();
  const auto waiting = mobula::task<again>.options({.name = "waits"}).remote(held);
  const auto never = mobula::task<idle>.options({.name = "never", .num_gpus = 8}).remote();
  tell("result of waits " + waiting.id());
  tell("ready");
  report.equal("held", mobula::get(held, seconds(60)), "go");
  report.equal("waiting", mobula::get(waiting, seconds(60)), "go go");
  report.equal("queued", mobula::get(queued, seconds(60)), 1);
  tell("done");
  hear();
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> question_scenarios() { return {{"each_state", &each_state}}; }

}  // namespace mobula::e2e
