#include "worker/process/watch/gpu_watch.h"

#include <algorithm>

#include "base/mutex.h"
#include "worker/process/watch/process_tree.h"

namespace mobula::internal::worker {

const WatchedExecutor* executor_of(pid_t process, const std::vector<WatchedExecutor>& executors) {
  const auto find = [&](pid_t pid) -> const WatchedExecutor* {
    const auto at = std::ranges::find(executors, pid, &WatchedExecutor::pid);
    return at == executors.end() ? nullptr : &*at;
  };
  constexpr int deepest = 64;
  for (int depth = 0; process > 1 && depth < deepest; ++depth) {
    if (const auto* executor = find(process)) return executor;
    const auto stat = read_stat(process);
    if (!stat) return nullptr;
    // An executor has its own session, in which its children remain after the exit of their
    // parents.
    if (const auto* executor = find(stat->session)) return executor;
    process = stat->parent;
  }
  return nullptr;
}

GpuWatch::GpuWatch(EventLoop& loop, Nvml nvml, std::vector<WatchedGpu> gpus,
                   std::function<void(GpuMemorySampled)> tell)
    : loop_(loop),
      nvml_(std::move(nvml)),
      gpus_(std::move(gpus)),
      tell_(std::make_shared<std::function<void(GpuMemorySampled)>>(std::move(tell))) {}

Result<std::unique_ptr<GpuWatch>> GpuWatch::start(EventLoop& loop, const std::string& nvml_library,
                                                  std::vector<WatchedGpu> gpus,
                                                  std::function<void(GpuMemorySampled)> tell) {
  auto nvml = Nvml::open(nvml_library);
  if (!nvml) return nvml.error();
  std::unique_ptr<GpuWatch> watch(
      new GpuWatch(loop, std::move(*nvml), std::move(gpus), std::move(tell)));
  watch->thread_ = std::thread([at = watch.get()] { at->serve(); });
  return watch;
}

GpuWatch::~GpuWatch() {
  *tell_ = {};
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void GpuWatch::sample(std::vector<WatchedExecutor> executors) {
  {
    const MutexLock lock(mutex_);
    if (busy_) return;
    busy_ = true;
    requested_ = std::move(executors);
  }
  changed_.notify_all();
}

void GpuWatch::serve() {
  while (true) {
    std::vector<WatchedExecutor> executors;
    {
      MutexLock lock(mutex_);
      while (!ending_ && !requested_) changed_.wait(lock);
      if (ending_) return;
      executors = *std::exchange(requested_, std::nullopt);
    }
    auto sample = sample_now(executors);
    {
      const MutexLock lock(mutex_);
      busy_ = false;
    }
    // A full mailbox drops this sample; the next one replaces it.
    (void)loop_.post([tell = tell_, sample = std::move(sample)] {
      if (*tell) (*tell)(sample);
    });
  }
}

GpuMemorySampled GpuWatch::sample_now(const std::vector<WatchedExecutor>& executors) const {
  GpuMemorySampled sample;
  for (const WatchedGpu& gpu : gpus_) {
    const auto used = nvml_.used_bytes(gpu.nvml_index);
    const auto users = nvml_.users(gpu.nvml_index);
    if (!used || !users) continue;  // retried with the next sample
    GpuUse& use = sample.devices.emplace_back();
    use.device = gpu.device;
    use.uuid = gpu.uuid;
    use.per_process = gpu.per_process;
    use.used_bytes = static_cast<std::int64_t>(*used);
    if (const auto busy = nvml_.busy_percent(gpu.nvml_index))
      use.busy_percent = static_cast<std::int32_t>(*busy);
    for (const DeviceUser& user : *users) {
      const auto* executor = executor_of(static_cast<pid_t>(user.process), executors);
      if (!user.used_bytes || executor == nullptr) continue;
      const auto bytes = static_cast<std::int64_t>(*user.used_bytes);
      const auto known = std::ranges::find(use.executors, executor->slot, &ExecutorGpuMemory::slot);
      if (known != use.executors.end()) {
        known->bytes += bytes;
      } else {
        use.executors.push_back({executor->slot, executor->generation, bytes});
      }
    }
  }
  return sample;
}

}  // namespace mobula::internal::worker
