#include <chrono>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

// Requests more than the cluster has, and waits until the test has inspected it.
int ask_for_more(const Words&) {
  std::vector<mobula::ObjectRef<int>> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.push_back(mobula::task<one>.options({.num_cpus = 4}).remote());
  }
  waiting.push_back(mobula::task<one>.options({.num_cpus = 1, .num_gpus = 16}).remote());
  auto trainer = mobula::actor<Counter>.options({.num_cpus = 1, .num_gpus = 0.5}).remote();
  auto pair = mobula::placement_group({{{"CPU", 8}}, {{"CPU", 8}}}, mobula::Strategy::strict_spread,
                                      {.name = "pair"});
  static_cast<void>(pair.wait(std::chrono::milliseconds(300)));
  tell("asked");
  hear();
  mobula::remove_placement_group(pair);
  mobula::kill(trainer);
  for (auto& each : waiting) mobula::cancel(each);
  return 0;
}

}  // namespace

std::map<std::string, Scenario> plan_scenarios() { return {{"ask_for_more", &ask_for_more}}; }

}  // namespace mobula::e2e
