#include "device/device_memory.h"

#include <mutex>
#include <utility>

namespace mobula::internal {
namespace {

std::mutex mutex;                      // guards what follows
std::shared_ptr<DeviceMemory> memory;  // shared with calls in progress

}  // namespace

std::shared_ptr<DeviceMemory> device_memory() {
  const std::scoped_lock lock(mutex);
  return memory;
}

void set_device_memory(std::shared_ptr<DeviceMemory> made) {
  const std::scoped_lock lock(mutex);
  memory.swap(made);
}

}  // namespace mobula::internal
