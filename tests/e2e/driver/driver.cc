#include "e2e/driver/driver.h"

#include <chrono>

int main(int argc, char** argv) {
  using namespace mobula::e2e;
  const auto begin = std::chrono::steady_clock::now();
  auto cluster = mobula::init(argc, argv);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;

  const Words words(argv + 1, argv + argc);
  if (words.empty()) return 64;
  if (words[0] == "init") {
    tell("init took " + std::to_string(took.count()) + " ms");
    tell((cluster.is_own() ? "started " : "joined ") + cluster.address());
    return 0;
  }
  for (const auto& scenarios :
       {task_scenarios(),       actor_scenarios(),         failure_scenarios(),
        error_scenarios(),      store_limit_scenarios(),   request_scenarios(),
        node_scenarios(),       group_scenarios(),         question_scenarios(),
        device_scenarios(),     plan_scenarios(),          capture_scenarios(),
        preemption_scenarios(), memory_scenarios(),        spilling_scenarios(),
        limit_scenarios(),      bulk_scenarios(),          tensor_scenarios(),
        direct_scenarios(),     tensor_policy_scenarios(), end_scenarios(),
        stream_scenarios(),     transfer_scenarios(),      chaos_scenarios(),
        allocation_scenarios(), device_tensor_scenarios(), residence_scenarios(),
        tensor_way_scenarios(), collective_scenarios(),    device_collective_scenarios(),
        deferred_scenarios()}) {
    if (const auto at = scenarios.find(words[0]); at != scenarios.end()) {
      try {
        return at->second(Words(words.begin() + 1, words.end()));
      } catch (const std::exception& error) {
        std::cerr << "NOT AS EXPECTED: " << words[0] << " threw: " << error.what() << std::endl;
        return 3;
      }
    }
  }
  std::cerr << "no scenario '" << words[0] << "'" << std::endl;
  return 64;
}
