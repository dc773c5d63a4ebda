// Codec of tensors: kind, dtype, dimensions, extents, strides if permuted, and the device if any.
// Then follow the origin and a checksum if requested, padding, and the elements in memory order.
#include <mobula/tensor.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include <mobula/detail/codec.h>
#include <mobula/errors.h>

#include "base/hash.h"
#include "tensor/device_elements.h"
#include "tensor/layout.h"
#include "tensor/origins.h"
#include "tensor/packing.h"
#include "tensor/refusals.h"
#include "tensor/storage.h"

namespace mobula::detail {
namespace {

using internal::tensor::Numbers;

// Bits of the first byte. Unknown bits are rejected.
constexpr std::uint8_t has_strides = 1;
constexpr std::uint8_t has_checksum = 2;
constexpr std::uint8_t is_apart = 4;  // a ref replaces the elements
constexpr std::uint8_t is_of_device = 8;
constexpr std::uint8_t has_origin = 16;  // location of the elements in the process that wrote them
constexpr std::uint8_t is_aliased = 32;  // the origin is valid even if the elements changed
constexpr std::uint8_t known_bits =
    has_strides | has_checksum | is_apart | is_of_device | has_origin | is_aliased;
constexpr std::size_t most_device_name = 64;

constexpr const char* check_variable = "MOBULA_CHECK_TENSORS";

bool checks() {
  static const bool on = [] {
    const char* given = std::getenv(check_variable);
    return given != nullptr && std::string_view(given) == "1";
  }();
  return on;
}

// Throws the exception for a failure.
template <class Outcome>
void require(const Outcome& outcome, std::string_view tried) {
  if (!outcome) internal::tensor::fail(outcome.error(), tried);
}

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return internal::siphash128({}, bytes).low;
}

// Also for device memory.
std::uint64_t checksum(std::span<const std::byte> bytes, Device device) {
  if (device.kind == Device::cpu) return checksum(bytes);
  std::vector<std::byte> copy(bytes.size());
  require(copy_to_host(device.index, bytes, copy.data()), "the checksum of a tensor of a device");
  return checksum(copy);
}

// Large blocks are padded so that they can be read in place; small ones are copied instead.
std::size_t alignment_of(std::size_t size_bytes) {
  return size_bytes >= block_alignment ? block_alignment : sizeof(std::uint64_t);
}

// Order in which the elements are written: memory order if they are dense.
struct Order {
  bool dense;
  bool permuted;
};

Order order_of(const TensorParts& parts) {
  if (internal::tensor::is_contiguous(parts.shape, parts.strides)) return {true, false};
  const bool dense = internal::tensor::is_dense(parts.shape, parts.strides);
  return {dense, dense};
}

void write_elements(std::span<std::byte> into, const TensorParts& parts, bool dense) {
  const std::byte* first = parts.storage->bytes() + parts.byte_offset;
  if (parts.device.kind != Device::cpu) {
    require(copy_to_host(parts.device.index, {first, into.size()}, into.data()),
            "writing a tensor of a device");
  } else if (dense) {
    std::memcpy(into.data(), first, into.size());
  } else {
    internal::tensor::pack(into.data(), first, parts.shape, parts.strides, item_bytes(parts.dtype));
  }
}

void write_device(Writer& out, const std::string& made_on) {
  if (made_on.empty()) return;
  const auto size = static_cast<std::uint8_t>(made_on.size());
  out.write_bytes(&size, sizeof size);
  out.write_bytes(made_on.data(), size);
}

std::string read_device(Reader& in) {
  std::uint8_t size = 0;
  in.read_bytes(&size, sizeof size);
  if (size == 0 || size > most_device_name) throw_corrupt("a tensor is of a device without a name");
  std::string made_on(size, '\0');
  in.read_bytes(made_on.data(), size);
  return made_on;
}

struct Head {
  std::uint8_t bits;
  std::uint8_t dtype;
  std::uint8_t dimensions;
};

Numbers read_numbers(Reader& in, std::size_t count) {
  Numbers numbers(count);
  in.read_bytes(numbers.data(), count * sizeof(std::int64_t));
  for (const std::int64_t each : numbers) {
    if (each < 0) throw_corrupt("a tensor has negative extents or strides");
  }
  return numbers;
}

// Reads the fields before the elements; `size_bytes` is the size of the elements, not yet checked
// against the input.
TensorParts read_layout(Reader& in, const Head& head, std::size_t& size_bytes) {
  TensorParts parts{.shape = {}, .strides = {}};
  parts.dtype = static_cast<DType>(head.dtype);
  const std::size_t item = item_bytes(parts.dtype);
  if (item == 0) throw_corrupt("a tensor has elements of no known type");
  if (head.dimensions > internal::tensor::max_dimensions) {
    throw_corrupt("a tensor has more than 64 dimensions");
  }
  parts.shape = read_numbers(in, head.dimensions);
  const auto count = internal::tensor::element_count(parts.shape, item);
  if (!count) throw_corrupt("a tensor has more elements than memory has bytes");
  size_bytes = static_cast<std::size_t>(*count) * item;
  if ((head.bits & has_strides) != 0) {
    parts.strides = read_numbers(in, head.dimensions);
    if (!internal::tensor::is_dense(parts.shape, parts.strides)) {
      throw_corrupt("a tensor's strides lead out of its elements");
    }
  } else {
    parts.strides = internal::tensor::contiguous_strides(parts.shape);
  }
  return parts;
}

void check_booleans(std::span<const std::byte> bytes) {
  std::byte all{0};
  for (const std::byte each : bytes) all |= each;
  if (all > std::byte{1}) throw_corrupt("a bool in a tensor is neither 0 nor 1");
}

std::span<const std::byte> bytes_of(const ApartTensor& apart, std::size_t size_bytes) {
  const auto there = static_cast<std::int64_t>(apart.storage->size_bytes()) - apart.byte_offset;
  if (apart.byte_offset < 0 || there < static_cast<std::int64_t>(size_bytes)) {
    throw_corrupt("a tensor has fewer elements than its shape says");
  }
  return {apart.storage->bytes() + apart.byte_offset, size_bytes};
}

// Uses the bytes in place if they are aligned for tensors, otherwise copies them.
std::shared_ptr<TensorStorage> storage_of(std::span<const std::byte> bytes,
                                          const std::shared_ptr<const void>& owner) {
  constexpr std::string_view sealed = "it was read from an object that others read too";
  auto* first = const_cast<std::byte*>(bytes.data());  // the seal prevents writes
  if (owner && reinterpret_cast<std::uintptr_t>(first) % TensorStorage::alignment == 0) {
    return std::make_shared<TensorStorage>(first, bytes.size(), Device(), owner, sealed);
  }
  auto copy = TensorStorage::allocate(bytes.size(), false);
  if (!copy) throw OutOfMemoryError("reading a tensor: there is no memory for its elements");
  std::memcpy(copy->bytes(), bytes.data(), bytes.size());
  auto* memory = copy->bytes();
  return std::make_shared<TensorStorage>(memory, bytes.size(), Device(), std::move(copy), sealed);
}

}  // namespace

namespace {

// The counting pass packs elements with gaps or overlaps and keeps the result. The write pass packs
// only to compute a checksum.
void set_apart(Writer& out, const Tensor& tensor, bool dense, std::span<std::byte> sum_bytes) {
  const bool packs = out.is_counting() || !sum_bytes.empty();
  const bool moves = packs && tensor.parts().device.kind != Device::cpu;
  std::shared_ptr<const TensorParts> parts(std::shared_ptr<void>(), &tensor.parts());
  if (packs && !dense) {
    parts = std::make_shared<TensorParts>(tensor.contiguous().parts());
  } else if (out.is_counting()) {
    parts = std::make_shared<TensorParts>(tensor.parts());
  }
  if (moves) {
    auto shared = shareable(*parts);
    require(shared, "a tensor of a device that stays where it is");
    parts = std::make_shared<TensorParts>(std::move(*shared));
  }
  if (!sum_bytes.empty()) {
    const std::uint64_t sum = checksum(
        {parts->storage->bytes() + parts->byte_offset, static_cast<std::size_t>(tensor.bytes())},
        parts->device);
    std::memcpy(sum_bytes.data(), &sum, sizeof sum);
  }
  out.write_apart(parts);
}

}  // namespace

void OwnCodec<Tensor>::write(Writer& out, const Tensor& tensor) {
  const std::string of_device = made_on(tensor);
  const Order order = order_of(tensor.parts());
  // A device packs during the copy to the host, and the copy is written.
  const bool packs = !of_device.empty() && !order.dense && !out.is_counting() &&
                     !out.stand_apart(static_cast<std::size_t>(tensor.bytes()));
  const std::optional<Tensor> packed = packs ? std::optional(tensor.to(Device())) : std::nullopt;
  const TensorParts& parts = packed ? packed->parts() : tensor.parts();
  // Only in the counting pass, in which the caller holds no lock.
  if (out.is_counting() && !of_device.empty())
    require(finish_elements(parts), "writing a tensor of a device");
  const auto size_bytes = static_cast<std::size_t>(tensor.bytes());
  const bool apart = out.stand_apart(size_bytes);
  const bool checked = size_bytes != 0 && checks();
  const bool recorded =
      out.origins() != Origins::unrecorded && !apart && size_bytes != 0 && order.dense;
  if (out.is_counting() && out.origins() != Origins::unrecorded && !apart && size_bytes != 0)
    IncludedTensors::add(tensor.parts());
  const bool aliased = recorded && out.origins() == Origins::aliased;
  const auto bits =
      static_cast<std::uint8_t>((order.permuted ? has_strides : 0) | (checked ? has_checksum : 0) |
                                (apart ? is_apart : 0) | (of_device.empty() ? 0 : is_of_device) |
                                (recorded ? has_origin : 0) | (aliased ? is_aliased : 0));
  const Head head{bits, static_cast<std::uint8_t>(parts.dtype),
                  static_cast<std::uint8_t>(parts.shape.size())};
  out.write_bytes(&head, sizeof head);
  out.write_bytes(parts.shape.data(), parts.shape.size() * sizeof(std::int64_t));
  if (order.permuted) {
    out.write_bytes(parts.strides.data(), parts.strides.size() * sizeof(std::int64_t));
  }
  write_device(out, of_device);
  if (recorded) {
    const Origin origin = out.is_counting() ? Origin() : origin_of(parts, aliased);
    out.write_bytes(&origin, sizeof origin);
  }
  const auto sum_bytes = out.claim(checked ? sizeof(std::uint64_t) : 0);
  if (apart) return set_apart(out, tensor, order.dense, sum_bytes);
  out.align_to(alignment_of(size_bytes));
  const auto bytes = out.claim(size_bytes);
  if (bytes.empty()) return;
  const auto hold = parts.storage->hold(
      range_of(parts), [] { return std::string("it is being written into an object"); });
  write_elements(bytes, parts, order.dense || packs);
  if (!checked) return;
  const std::uint64_t sum = checksum(bytes);
  std::memcpy(sum_bytes.data(), &sum, sizeof sum);
}

namespace {

// Moves the tensor to the wanted device, otherwise to its default destination.
Tensor landed(Tensor tensor, const std::string& of_device, const std::optional<Device>& wanted,
              bool was_apart) {
  const Device device = wanted              ? *wanted
                        : of_device.empty() ? tensor.device()
                                            : landing_of(of_device);
  if (device == tensor.device() && (of_device.empty() || was_apart)) return tensor;
  const auto began = internal::monotonic_now();
  Tensor there = tensor.to(device);
  if (of_device.empty() || was_apart) return there;
  report_destination({of_device, there.bytes(), device, internal::monotonic_now() - began});
  return there;
}

}  // namespace

Tensor OwnCodec<Tensor>::read(Reader& in) {
  Head head;
  in.read_bytes(&head, sizeof head);
  if ((head.bits & ~known_bits) != 0) throw_corrupt("a tensor is written in an unknown form");
  std::size_t size_bytes = 0;
  TensorParts parts = read_layout(in, head, size_bytes);
  std::string of_device;
  if ((head.bits & is_of_device) != 0) of_device = read_device(in);
  Origin origin;
  if ((head.bits & has_origin) != 0) in.read_bytes(&origin, sizeof origin);
  std::uint64_t sum = 0;
  if ((head.bits & has_checksum) != 0) in.read_bytes(&sum, sizeof sum);
  ApartTensor apart;
  std::span<const std::byte> bytes;
  if ((head.bits & is_apart) != 0) {
    apart = in.read_apart();
    bytes = bytes_of(apart, size_bytes);
  } else {
    in.align_to(alignment_of(size_bytes));
    bytes = in.take(size_bytes);
    if ((head.bits & has_origin) != 0 && !bytes.empty()) {
      apart = {find_origin(origin, bytes, (head.bits & is_aliased) != 0), origin.byte_offset};
    }
  }
  if (bytes.empty()) return Tensor(std::move(parts));
  if (apart.storage) parts.device = apart.storage->device();
  // otherwise `bytes` are in host memory, even for a device tensor
  const bool was_apart = (head.bits & is_apart) != 0;
  if (parts.dtype == DType::boolean && (!was_apart || parts.device.kind == Device::cpu))
    check_booleans(bytes);
  if ((head.bits & has_checksum) != 0 &&
      checksum(bytes, was_apart ? parts.device : Device()) != sum) {
    throw SerializationError(
        "reading a tensor (" + internal::tensor::text_of(Tensor(parts)) +
        "): it was changed after return: its bytes are not the bytes that were returned or put (" +
        check_variable + "); find the code that keeps a raw pointer to them");
  }
  parts.storage = apart.storage ? apart.storage : storage_of(bytes, in.owner());
  parts.byte_offset = apart.storage ? apart.byte_offset : 0;
  return landed(Tensor(std::move(parts)), of_device, in.device(), apart.storage != nullptr);
}

}  // namespace mobula::detail
