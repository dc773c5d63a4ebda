// The thread of a process that calls NCCL for its collective groups: what is posted runs in order, what is watched
// is looked at while something is under way, and else it sleeps. It never waits for the library. Any thread.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"

namespace mobula::internal::collective {

class DeviceThread {
 public:
  static Result<std::unique_ptr<DeviceThread>> start();
  // After what was posted, and what is watched has ended.
  ~DeviceThread();
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  void post(std::function<void()> work);
  // For the thread itself: calls `step`, over and over, until it returns true.
  void watch(std::function<bool()> step) { watched_.push_back(std::move(step)); }

 private:
  DeviceThread() = default;
  void run();

  Mutex mutex_;
  CondVar changed_;
  std::vector<std::function<void()>> posted_ MOBULA_GUARDED_BY(mutex_);
  bool ends_ MOBULA_GUARDED_BY(mutex_) = false;

  std::list<std::function<bool()>> watched_;  // the thread's
  std::thread thread_;
};

}  // namespace mobula::internal::collective
