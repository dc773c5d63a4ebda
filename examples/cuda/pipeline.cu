//   Source on half a GPU: fill<<<…>>> ──16 MiB for each batch──► Sink on half a GPU: sum<<<…>>>
// The tensors stay in device memory. On one GPU the sink reads the source's memory in place
// (cuda_ipc).
#include "needs_gpu.h"

#include <cstdint>
#include <set>
#include <vector>

using mobula::Device;
using mobula::DType;
using mobula::Tensor;

constexpr int count = 4 * 1024 * 1024;
constexpr int batches = 8;
const Device gpu{Device::cuda, 0};

__global__ void fill(float* elements, int batch) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) elements[i] = static_cast<float>(batch + i % 8);
}

// Adds all elements to `sum`, each thread those of its own stride.
__global__ void add_up(const float* elements, unsigned long long* sum) {
  unsigned long long mine = 0;
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count;
       i += static_cast<int>(gridDim.x * blockDim.x)) {
    mine += static_cast<unsigned long long>(elements[i]);
  }
  atomicAdd(sum, mine);
}

class Source {
 public:
  Tensor make(int batch) {
    const auto stream = task_stream();
    Tensor made = Tensor::empty({count}, DType::float32, gpu);
    fill<<<count / 256, 256, 0, stream>>>(static_cast<float*>(made.mutable_data()), batch);
    check(cudaGetLastError(), "launch fill");
    return made.produced_on(stream);
  }
};

class Sink {
 public:
  // The batch is complete for every stream when the method begins.
  std::uint64_t sum(const Tensor& batch) {
    const auto stream = task_stream();
    Tensor total = Tensor::zeros({1}, DType::uint64, gpu);
    add_up<<<256, 256, 0, stream>>>(static_cast<const float*>(batch.data()),
                                    static_cast<unsigned long long*>(total.mutable_data()));
    check(cudaGetLastError(), "launch add_up");
    const Tensor here = total.to(Device{}, stream);
    return here.view<std::uint64_t>()[0];
  }
  std::vector<std::string> paths() {
    std::set<std::string> seen;
    for (const auto& transfer : mobula::transfer_log()) {
      seen.insert(transfer.path + (transfer.in_place ? ", in place" : ", copied"));
    }
    return {seen.begin(), seen.end()};
  }
};

int run() {
  auto source = mobula::actor<Source>.options({.num_gpus = 0.5}).remote();
  auto sink = mobula::actor<Sink>.options({.num_gpus = 0.5}).remote();
  const auto make =
      source.method<&Source::make>().options({.tensor_transport = mobula::Transport::automatic});
  // All calls are submitted at once: the source makes a batch while the sink adds up the one
  // before.
  std::vector<mobula::ObjectRef<std::uint64_t>> sums;
  for (int batch = 0; batch < batches; ++batch)
    sums.push_back(sink.call<&Sink::sum>(make.remote(batch)));
  int wrong = 0;
  for (int batch = 0; batch < batches; ++batch) {
    const std::uint64_t expected =
        (std::uint64_t{28} + 8 * static_cast<std::uint64_t>(batch)) * (count / 8);
    wrong += mobula::get(sums[static_cast<std::size_t>(batch)]) == expected ? 0 : 1;
  }
  std::cout << batches << " batches of " << count * sizeof(float) << " bytes, " << wrong
            << " wrong sums\n";
  for (const auto& path : mobula::get(sink.call<&Sink::paths>()))
    std::cout << "path: " << path << "\n";
  return wrong == 0 ? 0 : 1;
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  return run_on_gpus("example_cuda_pipeline", run);
}
