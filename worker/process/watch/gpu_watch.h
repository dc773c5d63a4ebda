// Samples the memory that executors use on the GPUs of the node. A separate thread queries the
// driver, which may be slow; it takes one sample per request, one at a time.
// Thread: the agent's loop, for calls and events.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "device/detection/nvml.h"
#include "transport/loop/event_loop.h"
#include "worker/core/slots/memory_event.h"
#include "worker/process/watch/memory_watch.h"

namespace mobula::internal::worker {

struct WatchedGpu {
  std::uint32_t device = 0;  // index of the device on the node
  unsigned nvml_index = 0;
  std::string uuid;
  bool per_process = false;  // the driver reports memory per process
};

class GpuWatch {
 public:
  // Calls `tell` on the thread of `loop` once for each requested sample that succeeds.
  static Result<std::unique_ptr<GpuWatch>> start(EventLoop& loop, const std::string& nvml_library,
                                                 std::vector<WatchedGpu> gpus,
                                                 std::function<void(GpuMemorySampled)> tell);
  // Waits for the pending reply of the driver.
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // Requests a sample. Ignored while a sample is in progress.
  void sample(std::vector<WatchedExecutor> executors);

 private:
  GpuWatch(EventLoop& loop, Nvml nvml, std::vector<WatchedGpu> gpus,
           std::function<void(GpuMemorySampled)> tell);
  void serve();
  GpuMemorySampled sample_now(const std::vector<WatchedExecutor>& executors) const;

  EventLoop& loop_;
  const Nvml nvml_;  // used only on the watch thread after the start
  const std::vector<WatchedGpu> gpus_;
  // Shared with events posted to the loop, which may run after the end of this object.
  const std::shared_ptr<std::function<void(GpuMemorySampled)>> tell_;
  Mutex mutex_;
  CondVar changed_;
  std::optional<std::vector<WatchedExecutor>> requested_ MOBULA_GUARDED_BY(mutex_);
  bool busy_ MOBULA_GUARDED_BY(mutex_) = false;
  bool ending_ MOBULA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// The executor to which the process belongs: it is the executor, a descendant, or an orphan of it.
// Null: no executor.
const WatchedExecutor* executor_of(pid_t process, const std::vector<WatchedExecutor>& executors);

}  // namespace mobula::internal::worker
