//   "licence": 1.5            an amount: half a licence is half a licence
//   "TPU": 3                  in units, numbered: whoever asks for two has two whole ones, and knows which
#include <chrono>
#include <iostream>
#include <mobula/mobula.h>
#include <set>
#include <string>
#include <vector>

#include "where.h"

// The units that it was given.
class Rig {
 public:
  std::vector<std::string> units() { return mobula::current().resource_ids().at("TPU"); }
};

double licences_of_task() { return mobula::current().assigned_resources().at("licence"); }

int main(int argc, char** argv) {
  using std::chrono::seconds;
  // Units of an own name are declared with `mobula start --resources '{"board": {"total": 3, "unit": true}}'`;
  // those of the vendors' resources are units without saying so.
  auto cluster = mobula::init(
      argc, argv, own_cluster_with({.num_cpus = 2, .resources = {{"licence", 1.5}, {"TPU", 3}}}));
  if (!cluster.is_own()) {
    std::cout << "this cluster may have neither: nothing to show\n";
    return 0;
  }
  auto two = mobula::actor<Rig>.options({.num_cpus = 0, .resources = {{"TPU", 2}}}).remote();
  auto one = mobula::actor<Rig>.options({.num_cpus = 0, .resources = {{"TPU", 1}}}).remote();
  std::set<std::string> ids;
  for (auto& rig : {two, one}) {
    for (const auto& id : mobula::get(rig.call<&Rig::units>(), seconds(30))) ids.insert(id);
  }
  std::cout << ids.size() << " units, each with one holder\n";
  const double licences = mobula::get(
      mobula::task<licences_of_task>.options({.resources = {{"licence", 0.75}}}).remote(), seconds(30));
  std::cout << "a task had " << licences << " licences\n";
  return ids == std::set<std::string>{"0", "1", "2"} && licences == 0.75 ? 0 : 1;
}
