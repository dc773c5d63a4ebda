#include <chrono>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::seconds;

// Returns the number of its attempt once the pipe is written.
int hold_until_released(const std::string& pipe) {
  hold(pipe);
  return static_cast<int>(mobula::current().attempt);
}

// One task named "holds" with one CPU and the given number of retries. Prints which attempt ended.
int holds_a_cpu(const Words& arguments) {
  mobula::TaskOptions options;
  options.name = "holds";
  options.max_retries = std::stoi(arguments.at(1));
  const auto held = mobula::task<hold_until_released>.options(options).remote(arguments.at(0));
  tell("ready");
  tell("attempt " + std::to_string(mobula::get(held, seconds(120))));
  hear();
  return 0;
}

// The same for a task named "urgent".
int wants_a_cpu(const Words& arguments) {
  const auto urgent =
      mobula::task<hold_until_released>.options({.name = "urgent"}).remote(arguments.at(0));
  tell("ready");
  tell("attempt " + std::to_string(mobula::get(urgent, seconds(120))));
  return 0;
}

// Two tasks named "holds", one per given pipe. The third argument is the number of retries of the
// second task.
int holds_two_cpus(const Words& arguments) {
  const auto first = mobula::task<hold_until_released>  //
                         .options({.name = "holds", .max_retries = 1})
                         .remote(arguments.at(0));
  mobula::TaskOptions options;
  options.name = "holds";
  options.max_retries = std::stoi(arguments.at(2));
  const auto second = mobula::task<hold_until_released>.options(options).remote(arguments.at(1));
  tell("ready");
  tell("attempts " + std::to_string(mobula::get(first, seconds(120))) + " " +
       std::to_string(mobula::get(second, seconds(120))));
  hear();
  return 0;
}

// Holds a placement group of two CPUs until the test ends it.
int wants_a_group(const Words&) {
  const auto group = mobula::placement_group({{{"CPU", 1}}, {{"CPU", 1}}}, mobula::Strategy::pack);
  tell("ready");
  tell(group.wait(seconds(120)) ? "placed" : "not placed");
  hear();
  mobula::remove_placement_group(group);
  return 0;
}

}  // namespace

std::map<std::string, Scenario> preemption_scenarios() {
  return {{"holds_a_cpu", &holds_a_cpu},
          {"wants_a_cpu", &wants_a_cpu},
          {"holds_two_cpus", &holds_two_cpus},
          {"wants_a_group", &wants_a_group}};
}

}  // namespace mobula::e2e
