#include "tensor/collective/device_thread.h"

#include <utility>

#include "base/mutex.h"
#include "base/thread_start.h"
#include "base/time.h"

namespace mobula::internal::collective {
namespace {

// Pause between two polls: short compared to device work, without using a whole core.
constexpr Duration poll_interval = 50us;

}  // namespace

Result<std::unique_ptr<DeviceThread>> DeviceThread::start() {
  std::unique_ptr<DeviceThread> made(new DeviceThread());
  auto thread = start_thread("mobula-groups", [self = made.get()] { self->run(); });
  if (!thread) return thread.error();
  made->thread_ = std::move(*thread);
  return made;
}

DeviceThread::~DeviceThread() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void DeviceThread::post(std::function<void()> work) {
  {
    const MutexLock lock(mutex_);
    posted_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void DeviceThread::run() {
  MutexLock lock(mutex_);
  while (true) {
    if (watched_.empty()) {
      while (!ends_ && posted_.empty()) changed_.wait(lock);
    } else if (posted_.empty()) {
      changed_.wait_for(lock, poll_interval);
    }
    if (ends_ && posted_.empty() && watched_.empty()) return;
    const auto work = std::exchange(posted_, {});
    lock.unlock();
    for (const auto& each : work) each();
    for (auto at = watched_.begin(); at != watched_.end();)
      at = (*at)() ? watched_.erase(at) : std::next(at);
    lock.lock();
  }
}

}  // namespace mobula::internal::collective
