#include <mobula/tensor.h>

#include <fmt/format.h>

#include <cstring>

#include <mobula/errors.h>

#include "base/logging/log.h"
#include "device/device_memory.h"
#include "tensor/layout.h"
#include "tensor/packing.h"
#include "tensor/refusals.h"
#include "tensor/storage.h"

namespace mobula {
namespace {

using detail::TensorParts;
using detail::TensorStorage;
using internal::tensor::fail;
using internal::tensor::Numbers;
using internal::tensor::refuse;
using internal::tensor::refuse_shared;
using internal::tensor::text_of;

void check_shape(const Numbers& shape, std::size_t item) {
  if (shape.size() > internal::tensor::max_dimensions) {
    refuse("shape", "at most 64 dimensions", std::to_string(shape.size()));
  }
  for (const std::int64_t each : shape) {
    if (each < 0) refuse("shape", "an extent is not negative", text_of(shape));
  }
  if (!internal::tensor::element_count(shape, item)) {
    refuse("shape", "all elements together have less than 2^63 bytes", text_of(shape));
  }
}

void check_item(DType dtype, std::size_t each) {
  if (each == item_bytes(dtype)) return;
  refuse("dtype", "dtype_of of a type names one of its size",
         std::string(dtype_name(dtype)) + " for elements of " + std::to_string(each) + " bytes");
}

void check_device(Device device) {
  if (device == Device() || (device.kind == Device::cuda && device.index >= 0)) return;
  refuse("device", "Device{}, the host, or Device{Device::cuda, an index from 0 on}",
         text_of(device));
}

// Memory of the leased devices.
std::shared_ptr<internal::DeviceMemory> memory_of(Device device, std::string_view tried) {
  auto memory = internal::device_memory();
  if (memory) return memory;
  refuse("device",
         "this process has no lease on a GPU, so it has host memory alone; a task asks for a GPU "
         "with num_gpus, "
         "and memory of others is exported with to_dlpack",
         std::string(tried) + " on " + text_of(device));
}

std::shared_ptr<TensorStorage> allocated_on(Device device, std::size_t bytes, bool zeroed,
                                            const Numbers& shape) {
  const auto memory = memory_of(device, "a tensor " + text_of(shape));
  auto taken = memory->take(device.index, bytes);
  if (!taken) fail(taken.error(), "a tensor " + text_of(shape) + " on " + text_of(device));
  if (zeroed) {
    const auto cleared = memory->clear(device.index, taken->bytes, bytes);
    if (!cleared)
      fail(cleared.error(), "a tensor " + text_of(shape) + " of zeros on " + text_of(device));
  }
  return std::make_shared<TensorStorage>(taken->bytes, bytes, device, std::move(taken->owner));
}

Tensor allocated(const Extents& shape, DType dtype, Device device, bool zeroed) {
  const std::size_t item = item_bytes(dtype);
  if (item == 0) refuse("dtype", "one of mobula::DType", std::to_string(static_cast<int>(dtype)));
  check_device(device);
  check_shape(shape.values(), item);
  TensorParts parts;
  parts.device = device;
  parts.shape = shape.values();
  parts.strides = internal::tensor::contiguous_strides(parts.shape);
  parts.dtype = dtype;
  const auto bytes =
      static_cast<std::size_t>(*internal::tensor::element_count(parts.shape, item)) * item;
  if (bytes != 0 && device.kind != Device::cpu) {
    parts.storage = allocated_on(device, bytes, zeroed, parts.shape);
  } else if (bytes != 0) {
    parts.storage = TensorStorage::allocate(bytes, zeroed);
    if (!parts.storage) {
      throw OutOfMemoryError("a tensor of " + std::to_string(bytes) + " bytes (" +
                             text_of(parts.shape) +
                             "): the system gives this process no such memory; make it smaller, or "
                             "give the task more memory");
    }
  }
  return Tensor(std::move(parts));
}

void check_unshared(const Tensor& tensor, std::string_view tried) {
  const auto readers = detail::readers_of(tensor.parts());
  if (!readers.empty()) refuse_shared(tried, tensor, readers);
  if (!tensor.parts().storage) return;
  const auto onlookers = tensor.parts().storage->unwarned(detail::range_of(tensor.parts()));
  if (onlookers.empty()) return;
  internal::log_warn(
      "{} of a tensor ({}): others may see the change, in the middle of it: {}; "
      "TensorPolicy::snapshot "
      "gives them a copy, freeze refuses the change",
      tried, text_of(tensor), fmt::join(onlookers, "; "));
}

void check_host(const Tensor& tensor, std::string_view tried) {
  if (tensor.device().kind == Device::cpu) return;
  refuse("device",
         "the host reads no device memory; to(Device{}) copies it to the host, to_dlpack hands it "
         "to a library",
         std::string(tried) + " of " + text_of(tensor));
}

const void* first_of(const TensorParts& parts) {
  return parts.storage ? parts.storage->bytes() + parts.byte_offset : nullptr;
}

// Checks of `view` and `mutable_view`; returns the first element.
const void* checked(const Tensor& tensor, const detail::ElementType& wanted,
                    std::string_view tried) {
  check_host(tensor, tried);
  if (!wanted.any && wanted.dtype != tensor.dtype()) {
    refuse("dtype", "elements are read as their own type, or as std::byte",
           std::string(tried) + " as " + std::string(dtype_name(wanted.dtype)) + " of " +
               text_of(tensor));
  }
  if (!tensor.is_contiguous()) {
    const bool overlaps = internal::tensor::may_overlap(tensor.shape(), tensor.strides());
    refuse("strides",
           overlaps ? "elements do not overlap; call contiguous() for a copy"
                    : "elements follow each other; call contiguous() for a copy",
           text_of(tensor.strides()) + " of " + text_of(tensor));
  }
  const void* first = first_of(tensor.parts());
  if (reinterpret_cast<std::uintptr_t>(first) % wanted.alignment != 0) {
    refuse("byte_offset",
           "elements are at multiples of their size; clone() copies them to such a place",
           std::to_string(tensor.parts().byte_offset) + " of " + text_of(tensor));
  }
  return first;
}

std::size_t dimension_at(const Tensor& tensor, int which, std::string_view name) {
  const int dimensions = static_cast<int>(tensor.shape().size());
  if (which < -dimensions || which >= dimensions) {
    refuse(name, "one of the tensor's dimensions, or counted from the end",
           std::to_string(which) + " of " + text_of(tensor));
  }
  return static_cast<std::size_t>(which < 0 ? which + dimensions : which);
}

// Replaces -1 by the remaining extent.
Numbers completed(const Numbers& wanted, const Tensor& tensor) {
  Numbers shape = wanted;
  std::int64_t* open = nullptr;
  for (std::int64_t& each : shape) {
    if (each != -1) continue;
    if (open != nullptr) refuse("shape", "at most one extent is -1", text_of(wanted));
    open = &each;
    each = 1;
  }
  check_shape(shape, item_bytes(tensor.dtype()));
  const auto count = *internal::tensor::element_count(shape, item_bytes(tensor.dtype()));
  if (open != nullptr) {
    if (count == 0 || tensor.size() % count != 0) {
      refuse("shape", "the other extents divide the number of elements",
             text_of(wanted) + " of " + text_of(tensor));
    }
    *open = tensor.size() / count;
  } else if (count != tensor.size()) {
    refuse("shape", "as many elements as before", text_of(wanted) + " of " + text_of(tensor));
  }
  return shape;
}

// Largest number of copy operations between devices, or between a device and the host.
constexpr std::size_t most_device_copies = 65'536;

Tensor copied_to(const Tensor& from, Device device, void* stream, std::string_view tried);

// For a device tensor that would need too many copies: copies its memory range to the host and
// packs it there.
Tensor packed_on_host(const Tensor& from, void* stream, std::string_view tried) {
  TensorParts as_stored = from.parts();
  as_stored.shape = {from.size()};
  as_stored.strides = {1};
  TensorParts here = from.parts();
  here.storage = copied_to(Tensor(as_stored), Device(), stream, tried).parts().storage;
  here.byte_offset = 0;
  here.device = Device();
  return Tensor(std::move(here)).clone();
}

// Returns contiguous elements in new memory on `device`. The source or the destination must be a
// device.
Tensor copied_to(const Tensor& from, Device device, void* stream, std::string_view tried) {
  const TensorParts& parts = from.parts();
  const auto memory = memory_of(device.kind == Device::cpu ? parts.device : device, tried);
  const auto packed = internal::tensor::packed_rows(parts.shape, parts.strides,
                                                    item_bytes(parts.dtype), most_device_copies);
  const bool dense = internal::tensor::is_dense(parts.shape, parts.strides);
  if (!packed && dense && device.kind == Device::cpu) return packed_on_host(from, stream, tried);
  if (!packed && dense) {
    // The detour through the host is slow, but works.
    return copied_to(packed_on_host(from, stream, tried), device, stream, tried);
  }
  if (!packed) {
    refuse("strides",
           "elements that lie so that 65536 copies can pack them; call contiguous() of a library "
           "that knows the device first",
           text_of(parts.strides) + " of " + text_of(from));
  }
  Tensor copy = allocated(parts.shape, parts.dtype, device, false);
  if (packed->empty()) return copy;
  const auto index_of = [](Device at) {
    return at.kind == Device::cpu ? internal::on_host : at.index;
  };
  internal::DeviceCopy wanted;
  wanted.to = index_of(device);
  wanted.from = index_of(parts.device);
  wanted.stream = stream;
  wanted.after = parts.storage->producers();
  wanted.settled = parts.storage->settled();
  std::byte* const to = copy.parts().storage->bytes();
  const std::byte* const first = parts.storage->bytes() + parts.byte_offset;
  for (const auto& each : *packed) {
    const auto width = static_cast<std::size_t>(each.width);
    wanted.rows.push_back({to + each.into, first + each.from, width,
                           static_cast<std::size_t>(each.height), width,
                           static_cast<std::size_t>(each.pitch)});
  }
  const auto copied = memory->copy(wanted);
  if (!copied) fail(copied.error(), std::string(tried) + " of " + text_of(from));
  return copy;
}

}  // namespace

Tensor Tensor::empty(const Extents& shape, DType dtype, Device device) {
  return allocated(shape, dtype, device, false);
}

Tensor Tensor::zeros(const Extents& shape, DType dtype, Device device) {
  return allocated(shape, dtype, device, true);
}

Tensor Tensor::of_memory(const void* elements, std::size_t count, DType dtype, std::size_t each,
                         bool read_only, std::shared_ptr<const void> owner) {
  check_item(dtype, each);
  TensorParts parts;
  parts.dtype = dtype;
  parts.shape = {static_cast<std::int64_t>(count)};
  check_shape(parts.shape, each);
  if (count == 0) return Tensor(std::move(parts));
  if (elements == nullptr) refuse("elements", "not null if the tensor has elements", "null");
  // the seal prevents writes to const elements
  auto* first = static_cast<std::byte*>(const_cast<void*>(elements));
  parts.storage =
      std::make_shared<TensorStorage>(first, count * each, Device(), std::move(owner),
                                      read_only ? "its program has given it as const" : "");
  return Tensor(std::move(parts));
}

Tensor Tensor::copy_of(const void* elements, std::size_t count, DType dtype, std::size_t each) {
  check_item(dtype, each);
  Tensor tensor = allocated({count}, dtype, {}, false);
  if (count != 0) std::memcpy(tensor.parts_.storage->bytes(), elements, count * each);
  return tensor;
}

std::int64_t Tensor::size() const {
  return internal::tensor::element_count(parts_.shape, item_bytes(parts_.dtype)).value_or(0);
}

std::int64_t Tensor::bytes() const {
  return size() * static_cast<std::int64_t>(item_bytes(parts_.dtype));
}

bool Tensor::is_contiguous() const {
  return internal::tensor::is_contiguous(parts_.shape, parts_.strides);
}

Tensor Tensor::reshape(const Extents& shape) const {
  TensorParts parts = parts_;
  parts.shape = completed(shape.values(), *this);
  auto strides = internal::tensor::strides_in_shape(parts_.shape, parts_.strides, parts.shape);
  if (!strides) {
    refuse("shape", "these strides allow no look in this shape; call contiguous() first",
           text_of(parts.shape) + " of " + text_of(*this) + " with strides " +
               text_of(parts_.strides));
  }
  parts.strides = std::move(*strides);
  return Tensor(std::move(parts));
}

Tensor Tensor::transpose(int a, int b) const {
  const std::size_t first = dimension_at(*this, a, "a");
  const std::size_t second = dimension_at(*this, b, "b");
  TensorParts parts = parts_;
  std::swap(parts.shape[first], parts.shape[second]);
  std::swap(parts.strides[first], parts.strides[second]);
  return Tensor(std::move(parts));
}

Tensor Tensor::contiguous(void* stream) const { return is_contiguous() ? *this : clone(stream); }

Tensor Tensor::clone(void* stream) const {
  if (parts_.device.kind != Device::cpu) return copied_to(*this, parts_.device, stream, "clone");
  Tensor copy = allocated(parts_.shape, parts_.dtype, {}, false);
  if (copy.parts_.storage) {
    internal::tensor::pack(copy.parts_.storage->bytes(), static_cast<const std::byte*>(data()),
                           parts_.shape, parts_.strides, item_bytes(parts_.dtype));
  }
  return copy;
}

Tensor Tensor::to(Device device, void* stream) const {
  if (device == parts_.device) return *this;
  check_device(device);
  // The host packs its own elements; a device packs during the copy.
  if (parts_.device.kind == Device::cpu) return copied_to(contiguous(), device, stream, "to");
  return copied_to(*this, device, stream, "to");
}

const void* Tensor::data() const { return first_of(parts_); }

void* Tensor::mutable_data() {
  if (internal::tensor::may_overlap(parts_.shape, parts_.strides)) {
    refuse("strides", "elements that are written do not overlap; call contiguous() for a copy",
           text_of(parts_.strides) + " of " + text_of(*this));
  }
  check_unshared(*this, "mutable_data");
  return const_cast<void*>(first_of(parts_));
}

Tensor& Tensor::produced_on(void* stream) {
  if (parts_.storage) parts_.storage->produced_on(stream);
  return *this;
}

const void* Tensor::readable(const detail::ElementType& wanted) const {
  return checked(*this, wanted, "view");
}

void* Tensor::writable(const detail::ElementType& wanted) {
  const void* first = checked(*this, wanted, "mutable_view");
  check_unshared(*this, "mutable_view");
  return const_cast<void*>(first);
}

}  // namespace mobula
