//   "license": 1.5          an amount: 0.5 is half a license
//   "TPU": 3                numbered units: a request for 2 gets 2 whole units with their numbers
#include <mobula/mobula.h>
#include <chrono>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "where.h"

// Returns the assigned units.
class Rig {
 public:
  std::vector<std::string> units() { return mobula::current().resource_ids().at("TPU"); }
};

double licenses_of_task() { return mobula::current().assigned_resources().at("license"); }

int main(int argc, char** argv) {
  using std::chrono::seconds;
  // Numbered units of custom resources are declared with `mobula start --resources '{"board":
  // {"total": 3, "unit": true}}'`. Resources of vendors are always numbered.
  auto cluster = mobula::init(
      argc, argv, own_cluster_with({.num_cpus = 2, .resources = {{"license", 1.5}, {"TPU", 3}}}));
  if (!cluster.is_own()) {
    std::cout << "custom_resources: skipped, the cluster may lack these resources\n";
    return 0;
  }
  auto two = mobula::actor<Rig>.options({.num_cpus = 0, .resources = {{"TPU", 2}}}).remote();
  auto one = mobula::actor<Rig>.options({.num_cpus = 0, .resources = {{"TPU", 1}}}).remote();
  std::set<std::string> ids;
  for (auto& rig : {two, one}) {
    for (const auto& id : mobula::get(rig.call<&Rig::units>(), seconds(30))) ids.insert(id);
  }
  std::cout << ids.size() << " units, each with one holder\n";
  const double licenses = mobula::get(
      mobula::task<licenses_of_task>.options({.resources = {{"license", 0.75}}}).remote(),
      seconds(30));
  std::cout << "a task had " << licenses << " licenses\n";
  return ids == std::set<std::string>{"0", "1", "2"} && licenses == 0.75 ? 0 : 1;
}
