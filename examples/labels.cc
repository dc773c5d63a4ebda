// Label selectors, and fallback selectors for nodes that are full or do not exist:
//
//   zone = "a" ─────────────────────► only nodes of zone a.
//   zone = "b", else "a" ───────────► zone b if it has capacity, else zone a.
//   zone = "nowhere", else any ─────► any node, because no node has that zone.
#include <mobula/mobula.h>
#include <iostream>
#include <map>
#include <string>

#include "where.h"

using Zones = std::map<std::string, std::string>;  // by node

std::string node_of_task() { return mobula::current().node_id; }

Zones zones_of_cluster() {
  Zones zones;
  for (const auto& node : mobula::nodes()) {
    const auto zone = node.labels.find("zone");
    if (node.alive) zones[node.node_id] = zone == node.labels.end() ? "-" : zone->second;
  }
  return zones;
}

bool runs_in(const std::string& expected, const mobula::TaskOptions& options) {
  const auto zones = zones_of_cluster();
  const auto ran = zones.at(mobula::get(mobula::task<node_of_task>.options(options).remote()));
  std::cout << "zone " << options.label_selector.at("zone") << " and "
            << options.fallback_selectors.size() << " fallbacks: ran in zone " << ran << "\n";
  return ran == expected || expected == "any";
}

int main(int argc, char** argv) {
  auto cluster =
      mobula::init(argc, argv, own_cluster_with({.num_cpus = 2, .labels = {{"zone", "a"}}}));
  bool has_b = false;
  for (const auto& [node, zone] : zones_of_cluster()) has_b = has_b || zone == "b";

  bool right = runs_in("a", {.label_selector = {{"zone", "a"}}});
  right = runs_in(has_b ? "b" : "a",
                  {.label_selector = {{"zone", "b"}}, .fallback_selectors = {{{"zone", "a"}}}}) &&
          right;
  right = runs_in("any", {.label_selector = {{"zone", "nowhere"}}, .fallback_selectors = {{}}}) &&
          right;
  return right ? 0 : 1;
}
