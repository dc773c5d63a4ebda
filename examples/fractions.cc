//   GPU 0: ¼ ¼ ¼ ¼           four tasks on one device at a time: each waits for the others
//   GPU 0: ½ ½  GPU 1: ½     three actors fill one device before they use the next
#include <mobula/mobula.h>
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>

#include "where.h"

// Blocks callers until `count` have arrived: only tasks that run at the same time get through.
class Barrier {
 public:
  explicit Barrier(int count) : missing_(count) {}
  void arrive() {
    std::unique_lock lock(mutex_);
    if (--missing_ <= 0) all_here_.notify_all();
    all_here_.wait(lock, [this] { return missing_ <= 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  int missing_;
};

std::string meet(mobula::ActorHandle<Barrier> barrier) {
  mobula::get(barrier.call<&Barrier::arrive>());
  return mobula::current().gpu_ids().at(0);
}

class HalfGpu {
 public:
  std::string gpu() { return mobula::current().gpu_ids().at(0); }
};

// Returns a node with at least two GPUs.
std::string gpu_node() {
  for (const auto& node : mobula::nodes()) {
    const auto gpus = node.resources.find("GPU");
    if (node.alive && gpus != node.resources.end() && gpus->second >= 2) return node.node_id;
  }
  throw std::runtime_error("no node of this cluster has two GPUs");
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv, own_cluster_with({.num_cpus = 4, .num_gpus = 2}));
  const mobula::Scheduling there = mobula::NodeAffinity{.node_id = gpu_node()};

  auto barrier = mobula::actor<Barrier>.options({.max_concurrency = 4}).remote(4);
  const auto quarter =
      mobula::task<meet>.options({.num_cpus = 0.5, .num_gpus = 0.25, .scheduling = there});
  std::vector<mobula::ObjectRef<std::string>> met;
  for (int i = 0; i < 4; ++i) met.push_back(quarter.remote(barrier));
  const auto at_once = mobula::get(met, std::chrono::seconds(30));
  std::cout << "four tasks of 0.25 at the same time, on GPU";
  for (const auto& gpu : at_once) std::cout << " " << gpu;
  std::cout << "\n";

  std::vector<mobula::ActorHandle<HalfGpu>> actors;
  std::vector<std::string> halves;
  for (int i = 0; i < 3; ++i) {
    const mobula::ActorOptions half{.num_cpus = 0, .num_gpus = 0.5, .scheduling = there};
    actors.push_back(mobula::actor<HalfGpu>.options(half).remote());
    halves.push_back(mobula::get(actors.back().call<&HalfGpu::gpu>()));
  }
  std::cout << "three actors of 0.5, on GPU";
  for (const auto& gpu : halves) std::cout << " " << gpu;
  std::cout << "\n";

  const bool packed = at_once == std::vector<std::string>(4, at_once[0]) &&
                      halves[0] == halves[1] && halves[1] != halves[2];
  return packed ? 0 : 1;
}
