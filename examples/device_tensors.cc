//   tensors on the GPU of a task: created, copied, returned
// By default a tensor is copied into the object store. A reader with a GPU gets it on its GPU.
#include <mobula/mobula.h>

#include <iostream>
#include <numeric>

using mobula::Device;
using mobula::Tensor;

const Device gpu{Device::cuda, 0};

Tensor make(int count) {
  Tensor made = Tensor::zeros({count}, mobula::DType::float32, gpu);
  // Kernels run on a stream; readers of the tensor wait for that stream alone.
  made.produced_on(mobula::current().stream());
  return made;
}

std::string describe(const Tensor& tensor) {
  const Tensor copy = tensor.clone();  // on the same GPU, writable
  return std::string(copy.device() == gpu ? "on the GPU" : "in host memory") + ", " +
         std::to_string(copy.bytes()) + " bytes";
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  if (mobula::cluster_resources()["GPU"] < 1) {
    std::cout << "device_tensors: skipped, the cluster has no GPU\n";
    return 0;
  }
  const auto tensor = mobula::task<make>.options({.num_gpus = 1}).remote(1'000'000);
  std::cout << "a task with a GPU gets it "
            << mobula::get(mobula::task<describe>.options({.num_gpus = 1}).remote(tensor)) << "\n"
            << "a task without one gets it " << mobula::get(mobula::task<describe>.remote(tensor))
            << "\n";
  const Tensor here = mobula::get(tensor);
  const auto elements = here.view<float>();
  std::cout << "sum: " << std::accumulate(elements.begin(), elements.end(), 0.0) << "\n";
}
