//   bundle 0: GPU 0    bundle 1: GPU 1    two actors on one node, each in a separate bundle
//   a group that can never be placed fails immediately
#include <mobula/mobula.h>
#include <chrono>
#include <iostream>

#include "where.h"

class Shard {
 public:
  std::string gpu() { return mobula::current().gpu_ids().at(0); }
  std::string node() { return mobula::current().node_id; }
};

std::string node_of_child() { return mobula::current().node_id; }

// Child tasks use the same group.
std::string parent() {
  return mobula::get(mobula::task<node_of_child>.options({.num_cpus = 0.5}).remote());
}

int main(int argc, char** argv) {
  using std::chrono::seconds;
  auto cluster = mobula::init(argc, argv, own_cluster_with({.num_cpus = 4, .num_gpus = 2}));

  const auto group = mobula::placement_group({{{"CPU", 1}, {"GPU", 1}}, {{"CPU", 1}, {"GPU", 1}}},
                                             mobula::Strategy::strict_pack);
  if (!group.wait(seconds(30))) return 1;
  std::vector<mobula::ActorHandle<Shard>> shards;
  std::vector<std::string> gpus, nodes;
  for (int bundle = 0; bundle < 2; ++bundle) {
    shards.push_back(mobula::actor<Shard>
                         .options({.num_cpus = 0.5, .num_gpus = 1,
                                   .placement = mobula::Placement{group, bundle}})
                         .remote());
    gpus.push_back(mobula::get(shards.back().call<&Shard::gpu>()));
    nodes.push_back(mobula::get(shards.back().call<&Shard::node>()));
    std::cout << "bundle " << bundle << " has GPU " << gpus.back() << "\n";
  }
  const auto child = mobula::get(
      mobula::task<parent>
          .options({.num_cpus = 0.5, .placement = mobula::Placement{group, -1, true}})
          .remote());
  std::cout << "a child of a task in the group runs "
            << (child == nodes[0] ? "on the same node" : "on another node") << "\n";

  mobula::remove_placement_group(group);
  bool removed = false;
  try {
    // Removal returns when the request is sent. The actor answers until the removal takes effect.
    while (true) mobula::get(shards[0].call<&Shard::gpu>(), seconds(30));
  } catch (const mobula::PlacementGroupRemovedError& error) {
    removed = true;
    std::cout << "after removal: " << error.what() << "\n";
  }
  bool unplaceable = false;
  try {
    static_cast<void>(mobula::placement_group({{{"GPU", 1000}}}).wait(seconds(1)));
  } catch (const mobula::UnschedulableError& error) {
    unplaceable = true;
    std::cout << error.what() << "\n";
  }
  const bool apart = gpus[0] != gpus[1] && nodes[0] == nodes[1] && child == nodes[0];
  return apart && removed && unplaceable == cluster.is_own() ? 0 : 1;
}
