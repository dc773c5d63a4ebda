//   GPU 0: ¼ ¼ ¼ ¼      four tasks, each in a separate process, on one device at the same time.
// Each task has a quarter of the device's memory. The compute units are shared by time, and not
// limited.
#include "needs_gpu.h"

#include <condition_variable>
#include <mutex>
#include <set>
#include <vector>

using mobula::Device;
using mobula::Tensor;

constexpr int tasks = 4;
constexpr int count = 1024 * 1024;

__global__ void square(float* elements) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) elements[i] = static_cast<float>(i % 1000) * static_cast<float>(i % 1000);
}

// Blocks each caller until `tasks` callers have arrived: only tasks that run at the same time get
// through.
class Barrier {
 public:
  void arrive() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    all_arrived_.notify_all();
    all_arrived_.wait(lock, [this] { return arrived_ >= tasks; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_arrived_;
  int arrived_ = 0;
};

struct Report {
  std::string gpu;
  double share = 0;
  int wrong = 0;
};

Report work(mobula::ActorHandle<Barrier> barrier) {
  const auto stream = task_stream();
  Tensor squares = Tensor::empty({count}, mobula::DType::float32, Device{Device::cuda, 0});
  square<<<count / 256, 256, 0, stream>>>(static_cast<float*>(squares.mutable_data()));
  check(cudaGetLastError(), "launch square");
  const Tensor here = squares.to(Device{}, stream);
  const auto elements = here.view<float>();
  int wrong = 0;
  for (int i = 0; i < count; ++i) {
    const auto root = static_cast<float>(i % 1000);
    wrong += elements[static_cast<std::size_t>(i)] != root * root ? 1 : 0;
  }
  // Each task keeps its device memory until the last one has arrived.
  mobula::get(barrier.call<&Barrier::arrive>());
  return {mobula::current().gpu_ids().at(0), mobula::current().assigned_resources().at("GPU"),
          wrong};
}

int run() {
  auto barrier = mobula::actor<Barrier>.options({.max_concurrency = tasks}).remote();
  const auto quarter =
      mobula::task<work>.options({.num_cpus = 0.25, .num_gpus = 0.25, .max_retries = 0});
  std::vector<mobula::ObjectRef<Report>> reports;
  for (int i = 0; i < tasks; ++i) reports.push_back(quarter.remote(barrier));
  std::set<std::string> gpus;
  int wrong = 0;
  for (const auto& report : mobula::get(reports, std::chrono::seconds(60))) {
    std::cout << "a task with " << report.share << " of GPU " << report.gpu << ", " << report.wrong
              << " wrong elements\n";
    gpus.insert(report.gpu);
    wrong += report.wrong;
  }
  std::cout << tasks << " tasks at the same time on " << gpus.size() << " device(s)\n";
  return wrong == 0 && gpus.size() == 1 ? 0 : 1;
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  return run_on_gpus("example_cuda_fractions", run);
}
