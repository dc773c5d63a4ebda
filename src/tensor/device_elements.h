// Elements of tensors that lie in the memory of devices, on their way into values and out of them. Any thread
// that holds no lock for which a stream's work waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <mobula/device.h>
#include <mobula/tensor.h>

#include "base/result.h"
#include "base/time.h"

namespace mobula::detail {

// A tensor that was made on a device and written into a value has come out of it here.
struct Landing {
  std::string made_on;  // the device's UUID
  std::int64_t size_bytes = 0;
  Device device;        // where it lies now
  internal::Duration took{};
};
// From here on; null: nobody is told. Told without any lock.
void on_landing(std::function<void(const Landing&)> told);
void tell_landing(const Landing& landing);

// Waits until the elements are there: for what produced_on has named, else for the whole device.
internal::Result<void> finish_elements(const TensorParts& parts);
// Bytes of a device that nobody writes any more.
internal::Result<void> copy_to_host(int device, std::span<const std::byte> from, std::byte* to);
// To bytes of a device; there for every stream when it returns.
internal::Result<void> copy_to_device(int device, std::span<const std::byte> from, std::byte* to);
// Within one device, of bytes that nobody writes any more.
internal::Result<void> copy_within(int device, std::span<const std::byte> from, std::byte* to);
// The same elements in memory that other processes can reach: as they are, or a copy of the stretch in which
// they lie. They are there.
internal::Result<TensorParts> shareable(const TensorParts& parts);
// A copy of the stretch in which they lie, on the same device. They are there.
internal::Result<TensorParts> copied(const TensorParts& parts);

// What names the device of `parts` everywhere; InvalidRequestError where this process has no lease on it.
std::string made_on(const Tensor& tensor);
// Where a tensor of that device comes to lie here.
Device landing_of(const std::string& made_on);

}  // namespace mobula::detail
