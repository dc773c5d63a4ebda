//   GPU 0: 6 + 6 + 4 GiB    GPU 1: 15 GiB      bytes of memory instead of a fraction of the device
//   a request for 6 GiB more waits until one device has them: bytes are never allocated twice
#include <mobula/mobula.h>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "where.h"

constexpr std::int64_t gib = std::int64_t{1} << 30;

// Holds its bytes until it ends.
class Model {
 public:
  std::string gpu() { return mobula::current().gpu_ids().at(0); }
};

int main(int argc, char** argv) {
  using std::chrono::seconds;
  // Two devices of 18 GiB. If the machine has a GPU, its node reserves memory for the context of
  // each actor, so the requests leave 2 GiB of each device.
  auto cluster = mobula::init(
      argc, argv, own_cluster_with({.num_cpus = 2, .num_gpus = 2, .gpu_memory = 18 * gib}));
  const bool own = cluster.is_own();
  if (!own) {
    std::cout << "device_memory: skipped, the cluster's devices may have any size\n";
    return 0;
  }
  std::vector<mobula::ActorHandle<Model>> models;
  std::vector<std::string> gpus;
  for (const auto bytes : {6 * gib, 6 * gib, 15 * gib, 4 * gib}) {
    models.push_back(mobula::actor<Model>.options({.num_cpus = 0, .gpu_memory = bytes}).remote());
    gpus.push_back(mobula::get(models.back().call<&Model::gpu>(), seconds(30)));
    std::cout << bytes / gib << " GiB on GPU " << gpus.back() << "\n";
  }
  auto last = mobula::actor<Model>.options({.num_cpus = 0, .gpu_memory = 6 * gib}).remote();
  const auto waits = last.call<&Model::gpu>();
  const bool waited =
      mobula::wait(std::vector{waits}, {.timeout = std::chrono::milliseconds(500)}).ready.empty();
  models.erase(models.begin());  // the release of the last handle ends the first actor
  std::cout << "6 GiB more waited for GPU " << mobula::get(waits, seconds(30)) << "\n";
  return gpus == std::vector<std::string>{"0", "0", "1", "0"} && waited ? 0 : 1;
}
