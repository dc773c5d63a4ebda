#include <chrono>
#include <filesystem>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

// Requests more than the cluster has, and waits until the test has inspected it.
int request_more(const Words&) {
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

int wait_for_cancel(const std::string& pipe) {
  std::ofstream(pipe) << "runs" << std::endl;
  while (!mobula::current().cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return 0;
}

int sleep_for(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  return ms;
}

void end_on_request(std::vector<mobula::ObjectRef<int>>& waiting) {
  hear();
  for (auto& each : waiting) mobula::cancel(each);
}

// Submits tasks that run until the test ends them. Prints "runs" when the first one runs.
int submit_and_wait(const Words& arguments) {
  const std::string file =
      std::filesystem::temp_directory_path() / ("runs-" + std::to_string(::getpid()));
  std::vector<mobula::ObjectRef<int>> waiting;
  for (int i = 0; i < std::stoi(arguments.at(0)); ++i)
    waiting.push_back(mobula::task<wait_for_cancel>.remote(file));
  while (!std::filesystem::exists(file)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::filesystem::remove(file);
  tell("runs");
  end_on_request(waiting);
  return 0;
}

// Submits tasks that sleep. Prints "runs" when the first 20 have ended.
int submit_short_tasks(const Words& arguments) {
  std::vector<mobula::ObjectRef<int>> waiting;
  for (int i = 0; i < std::stoi(arguments.at(0)); ++i)
    waiting.push_back(mobula::task<sleep_for>.remote(std::stoi(arguments.at(1))));
  for (int i = 0; i < 20; ++i) mobula::get(waiting.at(i));
  tell("runs");
  end_on_request(waiting);
  return 0;
}

}  // namespace

std::map<std::string, Scenario> plan_scenarios() {
  return {{"request_more", &request_more},
          {"submit_and_wait", &submit_and_wait},
          {"submit_short_tasks", &submit_short_tasks}};
}

}  // namespace mobula::e2e
