//   driver: x, y ──► task with a GPU: a kernel of this file writes 2x + y ──► driver: checks it
// The kernel runs on the task's own stream, and the result is complete for its readers without a
// synchronization.
#include "needs_gpu.h"

#include <numeric>
#include <vector>

using mobula::Device;
using mobula::Tensor;

__global__ void saxpy(float a, const float* x, const float* y, float* result, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) result[i] = a * x[i] + y[i];
}

Tensor scale_and_add(float a, const Tensor& x, const Tensor& y) {
  const Device gpu{Device::cuda, 0};
  const auto stream = task_stream();
  // The copies to the GPU are complete for every stream when `to` returns.
  const Tensor x_here = x.to(gpu, stream);
  const Tensor y_here = y.to(gpu, stream);
  const int count = static_cast<int>(x.size());
  Tensor result = Tensor::empty({count}, mobula::DType::float32, gpu);
  saxpy<<<(count + 255) / 256, 256, 0, stream>>>(a, static_cast<const float*>(x_here.data()),
                                                 static_cast<const float*>(y_here.data()),
                                                 static_cast<float*>(result.mutable_data()), count);
  check(cudaGetLastError(), "launch saxpy");
  // Names the stream that writes the result; readers wait for this stream and for nothing else.
  return result.produced_on(stream);
}

int run() {
  constexpr int count = 1'000'003;
  std::vector<float> x(count);
  std::iota(x.begin(), x.end(), 0.0f);
  const Tensor y = Tensor::from(std::vector<float>(count, 1.0f));
  const auto result =
      mobula::task<scale_and_add>.options({.num_gpus = 1}).remote(2.0f, Tensor::from(x), y);
  const Tensor here = mobula::get(result);
  const auto elements = here.view<float>();
  int wrong = 0;
  for (int i = 0; i < count; ++i) wrong += elements[i] != 2.0f * x[i] + 1.0f ? 1 : 0;
  std::cout << "2x + y: " << count << " elements, " << wrong << " wrong\n";
  return wrong == 0 ? 0 : 1;
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  return run_on_gpus("example_cuda_kernel", run);
}
