#include <chrono>
#include <iostream>
#include <stdexcept>
#include <thread>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::seconds;

std::string again(const std::string& text) { return text + " " + text; }
int refuse() { throw std::runtime_error("not today"); }
int idle() { return 1; }

// One task in each state on a cluster of two CPUs, until the pipe is written.
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

class Occupant {
 public:
  int serve() { return 1; }
};

// One actor holds both CPUs. A second actor and a task wait for them, longer than a get may block
// without a warning.
int waits_for_placement(const Words&) {
  Report report;
  const auto holder = mobula::actor<Occupant>.options({.num_cpus = 2}).remote();
  report.equal("holder", mobula::get(holder.call<&Occupant::serve>(), seconds(30)), 1);
  const auto waiting = mobula::actor<Occupant>.options({.num_cpus = 1}).remote();
  const auto call = waiting.call<&Occupant::serve>();
  const auto queued = mobula::task<idle>.options({.name = "queues", .num_cpus = 2}).remote();
  tell("call " + call.id());
  const auto expect_reason = [&report](const mobula::ObjectRef<int>& ref) {
    try {
      (void)mobula::get(ref, mobula::Duration(3.5));
      report.fail("a request without capacity has run");
    } catch (const mobula::GetTimeoutError& error) {
      const std::string text = error.what();
      report.holds(text.c_str(), text.find("; the head: it fits on node ") != std::string::npos &&
                                     text.find(", 0 free)") != std::string::npos);
    }
  };
  std::thread other([&] { expect_reason(queued); });
  expect_reason(call);
  other.join();
  tell("done");
  hear();
  return report.exit_code();
}

int print_line(std::string what) {
  std::cout << what << std::endl;
  // Separates the lines of two tasks in time.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  return 0;
}

// Runs a printing task on the node of each argument, one after the other, and then waits. The tasks
// are known while this process lives.
int prints_by_turns(const Words& arguments) {
  Report report;
  for (const auto& node : arguments) {
    for (const char* what : {"first", "second"}) {
      const auto task = mobula::task<print_line>  //
                            .options({.scheduling = mobula::NodeAffinity{node, false}})
                            .remote(what + (" " + node));
      report.equal("it has printed", mobula::get(task, seconds(60)), 0);
      tell(std::string(what) + " " + task.id());
    }
  }
  tell("ready");
  hear();
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> question_scenarios() {
  return {{"each_state", &each_state},
          {"waits_for_placement", &waits_for_placement},
          {"prints_by_turns", &prints_by_turns}};
}

}  // namespace mobula::e2e
