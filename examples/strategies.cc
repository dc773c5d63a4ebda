//   Spread ─────────────► four concurrent tasks on as many nodes as possible
//   NodeAffinity{id} ───► that node. Without it: UnschedulableError, or any node (soft affinity)
#include <mobula/mobula.h>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "where.h"

std::string node_of_task() { return mobula::current().node_id; }

int main(int argc, char** argv) {
  using std::chrono::seconds;
  auto cluster = mobula::init(argc, argv, own_cluster_with({.num_cpus = 2}));
  std::set<std::string> with_cpus;
  for (const auto& node : mobula::nodes()) {
    if (node.alive && node.resources.count("CPU") > 0) with_cpus.insert(node.node_id);
  }

  std::set<std::string> seen;
  std::vector<mobula::ObjectRef<std::string>> spread;
  const mobula::TaskOptions quarter{.num_cpus = 0.25, .scheduling = mobula::Spread{}};
  for (int i = 0; i < 4; ++i) {
    spread.push_back(mobula::task<node_of_task>.options(quarter).remote());
  }
  for (const auto& node : mobula::get(spread)) seen.insert(node);
  std::cout << "spread over " << seen.size() << " of " << with_cpus.size() << " nodes\n";

  const std::string chosen = *with_cpus.rbegin();
  const auto there = mobula::get(
      mobula::task<node_of_task>.options({.scheduling = mobula::NodeAffinity{chosen}}).remote(),
      seconds(30));
  std::cout << "affinity: " << (there == chosen ? "ran there" : "ran elsewhere") << "\n";

  const std::string nowhere(32, 'e');
  const mobula::TaskOptions preferred{.scheduling = mobula::NodeAffinity{nowhere, true}};
  const auto soft =
      mobula::get(mobula::task<node_of_task>.options(preferred).remote(), seconds(30));
  bool refused = false;
  try {
    mobula::get(
        mobula::task<node_of_task>.options({.scheduling = mobula::NodeAffinity{nowhere}}).remote(),
        seconds(30));
  } catch (const mobula::UnschedulableError& error) {
    refused = true;
    std::cout << error.what() << "\n";
  }
  const bool is_spread = seen.size() == std::min(spread.size(), with_cpus.size());
  return is_spread && there == chosen && with_cpus.count(soft) == 1 && refused ? 0 : 1;
}
