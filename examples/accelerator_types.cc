//   accelerator_type = "H200" ──► only nodes with H200 GPUs; the same for "V100"
//   neuron_cores = 1 ──► a node with Neuron cores; NEURON_RT_VISIBLE_CORES names the assigned cores
#include <mobula/mobula.h>
#include <cstdlib>
#include <iostream>
#include <set>

#include "where.h"

std::string node_of_task() { return mobula::current().node_id; }

std::string visible_cores() {
  const char* visible = std::getenv("NEURON_RT_VISIBLE_CORES");
  return visible == nullptr ? "(not set)" : visible;
}

std::set<std::string> nodes_with(const std::string& resource) {
  std::set<std::string> found;
  for (const auto& node : mobula::nodes()) {
    if (node.alive && node.resources.count(resource) > 0) found.insert(node.node_id);
  }
  return found;
}

// Runs six tasks that request the type. True if every task ran on a node that has it.
bool run_on(const std::string& type) {
  const auto fitting = nodes_with("accelerator_type:" + type);
  if (fitting.empty()) {
    std::cout << type << ": no node has it\n";
    return true;
  }
  const auto typed = mobula::task<node_of_task>.options(
      {.num_cpus = 0.5, .num_gpus = 0.5, .accelerator_type = type});
  std::vector<mobula::ObjectRef<std::string>> ran;
  for (int i = 0; i < 6; ++i) ran.push_back(typed.remote());
  int inside = 0;
  for (const auto& node : mobula::get(ran)) inside += static_cast<int>(fitting.count(node));
  std::cout << type << ": " << inside << " of 6 tasks on the " << fitting.size() << " of "
            << mobula::nodes().size() << " nodes that have it\n";
  return inside == 6;
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(
      argc, argv,
      own_cluster_with(
          {.num_cpus = 2, .num_gpus = 1, .accelerator_type = mobula::accelerators::NVIDIA_H200}));

  bool right = run_on(mobula::accelerators::NVIDIA_H200);
  right = run_on(mobula::accelerators::NVIDIA_TESLA_V100) && right;

  if (!nodes_with("neuron_cores").empty()) {
    const auto cores = mobula::task<visible_cores>.options({.resources = {{"neuron_cores", 1}}});
    const std::string seen = mobula::get(cores.remote());
    std::cout << "neuron_cores: NEURON_RT_VISIBLE_CORES=" << seen << "\n";
    right = right && (seen == "0" || seen == "1");
  }
  return right ? 0 : 1;
}
