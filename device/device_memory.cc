#include "device/device_memory.h"

#include <utility>

#include "base/mutex.h"

namespace mobula::internal {
namespace {

Mutex mutex;
std::shared_ptr<DeviceMemory> memory MOBULA_GUARDED_BY(mutex);  // shared with calls in progress

}  // namespace

std::shared_ptr<DeviceMemory> device_memory() {
  const MutexLock lock(mutex);
  return memory;
}

void set_device_memory(std::shared_ptr<DeviceMemory> made) {
  const MutexLock lock(mutex);
  memory.swap(made);
}

}  // namespace mobula::internal
