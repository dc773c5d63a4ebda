//   one node:  GPU 0 ◄── actor, while it lives     GPU 1 ◄── task, while it runs
// CUDA_VISIBLE_DEVICES names the assigned devices before the first line of the process runs.
#include <mobula/mobula.h>
#include <cstdlib>
#include <iostream>

#include "where.h"

struct Devices {
  std::string node;
  std::vector<std::string> gpu_ids;
  std::string visible;
};

Devices devices() {
  const auto& task = mobula::current();
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return {task.node_id, task.gpu_ids(), visible == nullptr ? "(not set)" : visible};
}

class GpuActor {
 public:
  Devices look() { return devices(); }
};

void print(const char* who, const Devices& seen) {
  std::cout << who << ": gpu_ids";
  for (const auto& id : seen.gpu_ids) std::cout << " " << id;
  std::cout << ", CUDA_VISIBLE_DEVICES=" << seen.visible << "\n";
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv, own_cluster_with({.num_cpus = 2, .num_gpus = 2}));

  auto actor = mobula::actor<GpuActor>.options({.num_gpus = 1}).remote();
  const Devices of_actor = mobula::get(actor.call<&GpuActor::look>());
  print("actor", of_actor);

  const mobula::TaskOptions beside_it{.num_gpus = 1,
                                      .scheduling = mobula::NodeAffinity{.node_id = of_actor.node}};
  const Devices of_task = mobula::get(mobula::task<devices>.options(beside_it).remote());
  print("task", of_task);

  const bool apart = of_actor.gpu_ids.size() == 1 && of_task.gpu_ids.size() == 1 &&
                     of_actor.gpu_ids != of_task.gpu_ids;
  return apart ? 0 : 1;
}
