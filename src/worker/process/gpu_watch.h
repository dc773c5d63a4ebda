// What executors have of the node's GPUs, looked at again and again. The driver's answers may take long, so a thread
// of its own asks; it looks only when it was asked to, once at a time. Created, asked and destroyed on the loop's
// thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "device/nvml.h"
#include "transport/event_loop.h"
#include "worker/core/memory_event.h"
#include "worker/process/memory_watch.h"

namespace mobula::internal::worker {

struct WatchedGpu {
  std::uint32_t device = 0;  // its index on the node
  unsigned nvml_index = 0;
  std::string uuid;
  bool per_process = false;  // the driver says which process has what
};

class GpuWatch {
 public:
  // `tell` is called on the loop's thread, once for each look that was asked for and did not fail.
  static Result<std::unique_ptr<GpuWatch>> start(EventLoop& loop, const std::string& nvml_library,
                                                 std::vector<WatchedGpu> gpus,
                                                 std::function<void(GpuMemorySampled)> tell);
  // Waits for the driver's answer, if one is due.
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // Nothing while the last look is under way.
  void look(std::vector<WatchedExecutor> executors);

 private:
  GpuWatch(EventLoop& loop, Nvml nvml, std::vector<WatchedGpu> gpus,
           std::function<void(GpuMemorySampled)> tell);
  void serve();
  GpuMemorySampled look_now(const std::vector<WatchedExecutor>& executors) const;

  EventLoop& loop_;
  const Nvml nvml_;  // after the start the thread's
  const std::vector<WatchedGpu> gpus_;
  // Shared with what is posted to the loop, which may come when this is gone.
  const std::shared_ptr<std::function<void(GpuMemorySampled)>> tell_;
  Mutex mutex_;
  CondVar changed_;
  std::optional<std::vector<WatchedExecutor>> asked_ MOBULA_GUARDED_BY(mutex_);
  bool busy_ MOBULA_GUARDED_BY(mutex_) = false;
  bool ending_ MOBULA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Which of the executors the process belongs to: it, what it has started, and what is left of that. Null: none.
const WatchedExecutor* executor_of(pid_t process, const std::vector<WatchedExecutor>& executors);

}  // namespace mobula::internal::worker
