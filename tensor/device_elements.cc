#include "tensor/device_elements.h"

#include <cstring>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "device/device_memory.h"
#include "tensor/refusals.h"
#include "tensor/storage.h"

namespace mobula::detail {
namespace {

using internal::ErrorCode;
using internal::Result;

struct LandingCallback {
  internal::Mutex mutex;
  std::shared_ptr<const std::function<void(const Landing&)>> callback MOBULA_GUARDED_BY(mutex);
};

LandingCallback& landing_callback() {
  static auto* callback =
      new LandingCallback;  // never destroyed: tensors are read until the process ends
  return *callback;
}

Result<std::shared_ptr<internal::DeviceMemory>> leased_memory() {
  auto memory = internal::device_memory();
  if (memory) return memory;
  return internal::failure(ErrorCode::unavailable, "the process has no lease on a GPU");
}

// Requires complete elements.
Result<TensorParts> copied_on_device(internal::DeviceMemory& memory, const TensorParts& parts) {
  const Device device = parts.storage->device();
  const ByteRange range = range_of(parts);
  const auto size = static_cast<std::size_t>(range.end - range.begin);
  auto taken = memory.take(device.index, size);
  if (!taken) return taken.error();
  internal::DeviceCopy copy;
  copy.to = copy.from = device.index;
  copy.settled = true;
  copy.rows.push_back(
      {.to = taken->bytes, .from = parts.storage->bytes() + range.begin, .width = size});
  if (auto copied = memory.copy(copy); !copied) return copied.error();
  TensorParts moved = parts;
  moved.storage =
      std::make_shared<TensorStorage>(taken->bytes, size, device, std::move(taken->owner));
  moved.byte_offset = 0;
  return moved;
}

}  // namespace

void on_landing(std::function<void(const Landing&)> callback) {
  LandingCallback& all = landing_callback();
  const internal::MutexLock lock(all.mutex);
  all.callback =
      callback ? std::make_shared<const std::function<void(const Landing&)>>(std::move(callback))
               : nullptr;
}

void report_destination(const Landing& landing) {
  LandingCallback& all = landing_callback();
  std::shared_ptr<const std::function<void(const Landing&)>> callback;
  {
    const internal::MutexLock lock(all.mutex);
    callback = all.callback;
  }
  if (callback) (*callback)(landing);
}

Result<void> finish_elements(const TensorParts& parts) {
  if (!parts.storage || parts.storage->device().kind == Device::cpu || parts.storage->settled())
    return {};
  const auto memory = leased_memory();
  if (!memory) return memory.error();
  return (*memory)->finish(parts.storage->device().index, parts.storage->producers());
}

Result<void> copy_to_host(int device, std::span<const std::byte> from, std::byte* to) {
  const auto memory = leased_memory();
  if (!memory) return memory.error();
  internal::DeviceCopy copy;
  copy.from = device;
  copy.settled = true;
  copy.rows.push_back({.to = to, .from = from.data(), .width = from.size()});
  return (*memory)->copy(copy);
}

Result<void> copy_to_device(int device, std::span<const std::byte> from, std::byte* to) {
  if (from.empty()) return {};
  const auto memory = leased_memory();
  if (!memory) return memory.error();
  internal::DeviceCopy copy;
  copy.to = device;
  copy.rows.push_back({.to = to, .from = from.data(), .width = from.size()});
  return (*memory)->copy(copy);
}

Result<void> copy_timeout(int device, std::span<const std::byte> from, std::byte* to) {
  if (from.empty()) return {};
  const auto memory = leased_memory();
  if (!memory) return memory.error();
  internal::DeviceCopy copy;
  copy.to = copy.from = device;
  copy.settled = true;
  copy.rows.push_back({.to = to, .from = from.data(), .width = from.size()});
  return (*memory)->copy(copy);
}

Result<TensorParts> shareable(const TensorParts& parts) {
  if (!parts.storage || parts.storage->device().kind == Device::cpu) return parts;
  const auto memory = leased_memory();
  if (!memory) return memory.error();
  if (auto finished = finish_elements(parts); !finished) return finished.error();
  const ByteRange range = range_of(parts);
  if (range.begin == range.end) return parts;
  if ((*memory)->is_shareable(parts.storage->device().index, parts.storage->bytes() + range.begin))
    return parts;
  return copied_on_device(**memory, parts);
}

Result<TensorParts> copied(const TensorParts& parts) {
  if (!parts.storage) return parts;
  const ByteRange range = range_of(parts);
  if (range.begin == range.end) return parts;
  if (parts.storage->device().kind != Device::cpu) {
    const auto memory = leased_memory();
    if (!memory) return memory.error();
    if (auto finished = finish_elements(parts); !finished) return finished.error();
    return copied_on_device(**memory, parts);
  }
  const auto size = static_cast<std::size_t>(range.end - range.begin);
  auto storage = TensorStorage::allocate(size, false);
  if (!storage)
    return internal::failure(ErrorCode::resource_exhausted,
                             "no memory is left for a snapshot of a tensor");
  std::memcpy(storage->bytes(), parts.storage->bytes() + range.begin, size);
  TensorParts copy = parts;
  copy.storage = std::move(storage);
  copy.byte_offset = 0;
  return copy;
}

std::string made_on(const Tensor& tensor) {
  if (tensor.device().kind == Device::cpu) return {};
  const auto memory = internal::device_memory();
  std::string uuid = memory ? memory->uuid_of(tensor.device().index) : std::string();
  if (uuid.empty()) {
    internal::tensor::refuse(
        "device",
        "values hold tensors in host memory, and of GPUs that this process has a lease on; copy it "
        "there first",
        internal::tensor::text_of(tensor));
  }
  return uuid;
}

Device landing_of(const std::string& made_on) {
  const auto memory = internal::device_memory();
  const int index = memory ? memory->landing(made_on) : internal::on_host;
  return index == internal::on_host ? Device() : Device{Device::cuda, index};
}

}  // namespace mobula::detail
