// Copies tensor elements between device memory and the host, to write tensors into values and read
// them.
// Thread: any. The caller must not hold a lock that a stream's work waits for.
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

// Report of a tensor that was made on a device, written into a value, and read here.
struct Landing {
  std::string made_on;  // UUID of the original device
  std::int64_t size_bytes = 0;
  Device device;  // present location
  internal::Duration took{};
};
// Sets the callback for these reports; null removes it. Called without a lock.
void on_landing(std::function<void(const Landing&)> callback);
void report_destination(const Landing& landing);

// Waits for the elements: for the streams of `produced_on` if any are named, otherwise for the
// whole device.
internal::Result<void> finish_elements(const TensorParts& parts);
// Copies device bytes that no kernel writes any more.
internal::Result<void> copy_to_host(int device, std::span<const std::byte> from, std::byte* to);
// Copies to device bytes. On return, they are complete for every stream.
internal::Result<void> copy_to_device(int device, std::span<const std::byte> from, std::byte* to);
// Copies within one device. No kernel may still write `from`.
internal::Result<void> copy_timeout(int device, std::span<const std::byte> from, std::byte* to);
// Returns the same elements, complete, in memory that other processes can map: the original, or a
// copy of the byte range that contains them.
internal::Result<TensorParts> shareable(const TensorParts& parts);
// Returns a complete copy, on the same device, of the byte range that contains the elements.
internal::Result<TensorParts> copied(const TensorParts& parts);

// UUID of the tensor's device; empty for host memory. Throws InvalidRequestError if this process
// does not lease the device.
std::string made_on(const Tensor& tensor);
// Destination in this process of a tensor from that device.
Device landing_of(const std::string& made_on);

}  // namespace mobula::detail
