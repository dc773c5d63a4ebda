// Thread of a process that calls NCCL for its collective groups. It runs posted work in order and
// polls watched work until it completes; without work it blocks. It never blocks in the library.
// Thread: any, except `watch`.
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
  // Runs the posted work and waits for the watched work.
  ~DeviceThread();
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  void post(std::function<void()> work);
  // Only for the device thread itself: calls `step` repeatedly until it returns true.
  void watch(std::function<bool()> step) { watched_.push_back(std::move(step)); }

 private:
  DeviceThread() = default;
  void run();

  Mutex mutex_;
  CondVar changed_;
  std::vector<std::function<void()>> posted_ MOBULA_GUARDED_BY(mutex_);
  bool ends_ MOBULA_GUARDED_BY(mutex_) = false;

  std::list<std::function<bool()>> watched_;  // owned by the thread
  std::thread thread_;
};

}  // namespace mobula::internal::collective
