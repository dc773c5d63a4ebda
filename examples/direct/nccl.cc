//   Layer 0 on GPU 0 ──nccl──► Layer 1 on GPU 1 ──nccl──► here
// No group is created before: the two processes connect when the first tensor moves between them.
#include <mobula/mobula.h>

#include <iostream>
#include <numeric>

using mobula::Device;
using mobula::Tensor;
using mobula::Transport;

class Layer {
 public:
  Tensor first(int count) {
    Tensor made = Tensor::empty({count});
    const auto elements = made.mutable_view<float>();
    std::iota(elements.begin(), elements.end(), 0.0f);
    return made.to({Device::cuda, 0});
  }
  // The input is on its own GPU.
  std::string where(const Tensor& activations) {
    return activations.device().kind == Device::cuda ? "on a GPU" : "in host memory";
  }
  double sum(const Tensor& activations) {
    const Tensor here = activations.to(Device{});  // elements are read on the host
    const auto elements = here.view<float>();
    return std::accumulate(elements.begin(), elements.end(), 0.0);
  }
  std::string path() {
    const auto log = mobula::transfer_log();
    return log.empty() ? "no transfer" : log.back().path;
  }
};

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  if (mobula::cluster_resources()["GPU"] < 2) {
    std::cout << "nccl: skipped, the cluster has fewer than two GPUs\n";
    return 0;
  }
  for (const auto& node : mobula::nodes()) {
    for (const auto& [name, amount] : node.resources) {
      if (name.starts_with("accelerator_type:")) std::cout << name << "\n";
    }
  }
  auto one = mobula::actor<Layer>.options({.num_gpus = 1}).remote();
  auto two = mobula::actor<Layer>.options({.num_gpus = 1}).remote();
  const auto tensor =
      one.method<&Layer::first>().options({.tensor_transport = Transport::nccl}).remote(1'000'000);
  std::cout << "the second layer gets it " << mobula::get(two.call<&Layer::where>(tensor)) << "\n"
            << "sum: " << mobula::get(two.call<&Layer::sum>(tensor)) << "\n"
            << "path: " << mobula::get(two.call<&Layer::path>()) << "\n";
}
