#include "device/device_memory.h"

#include <utility>

#include "base/mutex.h"

namespace mobula::internal {
namespace {

Mutex installed_mutex;
std::shared_ptr<DeviceMemory> installed
    MOBULA_GUARDED_BY(installed_mutex);  // shared with calls in progress

}  // namespace

std::shared_ptr<DeviceMemory> device_memory() {
  const MutexLock lock(installed_mutex);
  return installed;
}

void set_device_memory(std::shared_ptr<DeviceMemory> made) {
  const MutexLock lock(installed_mutex);
  installed.swap(made);
}

}  // namespace mobula::internal
