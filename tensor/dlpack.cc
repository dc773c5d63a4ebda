#include <fmt/format.h>

#include <array>
#include <exception>
#include <limits>
#include <optional>
#include <unordered_set>

#include <mobula/errors.h>
#include <mobula/tensor.h>

#include "base/logging/log.h"
#include "base/mutex.h"
#include "tensor/dlpack_abi.h"
#include "tensor/layout.h"
#include "tensor/refusals.h"
#include "tensor/storage.h"

namespace mobula {
namespace {

using detail::TensorParts;
using detail::TensorStorage;
using internal::dlpack::Managed;
using internal::dlpack::ManagedVersioned;
using internal::dlpack::TensorView;
using internal::tensor::refuse;
using internal::tensor::text_of;

constexpr std::string_view argument = "DLPack tensor";

struct TypeRow {
  DType dtype;
  std::uint8_t code;
  std::uint8_t bits;
};

constexpr std::array<TypeRow, 18> types = {{
    {DType::boolean, internal::dlpack::code_bool, 8},
    {DType::uint8, internal::dlpack::code_uint, 8},
    {DType::uint16, internal::dlpack::code_uint, 16},
    {DType::uint32, internal::dlpack::code_uint, 32},
    {DType::uint64, internal::dlpack::code_uint, 64},
    {DType::int8, internal::dlpack::code_int, 8},
    {DType::int16, internal::dlpack::code_int, 16},
    {DType::int32, internal::dlpack::code_int, 32},
    {DType::int64, internal::dlpack::code_int, 64},
    {DType::float16, internal::dlpack::code_float, 16},
    {DType::bfloat16, internal::dlpack::code_bfloat, 16},
    {DType::float32, internal::dlpack::code_float, 32},
    {DType::float64, internal::dlpack::code_float, 64},
    {DType::complex64, internal::dlpack::code_complex, 64},
    {DType::complex128, internal::dlpack::code_complex, 128},
    {DType::float8_e4m3fn, internal::dlpack::code_float8_e4m3fn, 8},
    {DType::float8_e5m2, internal::dlpack::code_float8_e5m2, 8},
    {DType::float8_e8m0, internal::dlpack::code_float8_e8m0, 8},
}};

static_assert([] {
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i].dtype != static_cast<DType>(i)) return false;
  }
  return true;
}());

// Tensors with a pending deleter, which must be called exactly once. Any thread.
class Loans {
 public:
  // Returns false if the deleter is already pending.
  bool begin(const void* what) {
    const internal::MutexLock lock(mutex_);
    return exported_.insert(what).second;
  }
  // Returns false if no deleter is pending.
  bool end(const void* what) {
    const internal::MutexLock lock(mutex_);
    return exported_.erase(what) != 0;
  }

 private:
  internal::Mutex mutex_;
  std::unordered_set<const void*> exported_ MOBULA_GUARDED_BY(mutex_);
};

Loans& imports() {
  static auto* all = new Loans;  // never destroyed: tensors outlive main
  return *all;
}
Loans& exports() {
  static auto* all = new Loans;
  return *all;
}

// ---- import -------------------------------------------------------------------------------------

// Calls the producer's deleter and catches its exceptions, because destructors release the memory.
template <class Given>
void end(Given* managed, void (*deleter)(Given*)) noexcept {
  if (deleter == nullptr) return;
  (void)imports().end(managed);  // before the call: the producer may reuse the address immediately
  try {
    deleter(managed);
  } catch (const std::exception& error) {
    internal::log_error("the deleter of a DLPack tensor threw: {}", error.what());
  } catch (...) {
    internal::log_error(
        "the deleter of a DLPack tensor threw an object that is not a "
        "std::exception");
  }
}

DType dtype_of_view(const TensorView& view) {
  const auto& type = view.type;
  const std::string given =
      fmt::format("type code {}, {} bits, {} lanes", type.code, type.bits, type.lanes);
  if (type.lanes != 1) refuse("dtype", "single elements, no vectors of them (lanes)", given);
  for (const TypeRow& row : types) {
    if (row.code == type.code && row.bits == type.bits) return row.dtype;
  }
  if (type.bits < 8) refuse("dtype", "elements of at least a byte; unpack them first", given);
  if (type.code == internal::dlpack::code_opaque)
    refuse("dtype", "numbers, no opaque handles", given);
  refuse("dtype", "one that mobula::DType names", given);
}

Device device_of_view(const TensorView& view) {
  const auto& device = view.device;
  switch (device.type) {
    case internal::dlpack::device_cpu:
    case internal::dlpack::device_cuda_host: return {};
    case internal::dlpack::device_cuda:
      if (device.index < 0)
        refuse("device", "its index is not negative", std::to_string(device.index));
      return {Device::cuda, device.index};
    case internal::dlpack::device_cuda_managed:
      refuse("device", "host or CUDA memory: managed memory has no one place; copy it to one",
             "kDLCUDAManaged");
    default:
      refuse("device", "host or CUDA memory", fmt::format("DLPack device type {}", device.type));
  }
}

std::vector<std::int64_t> shape_of_view(const TensorView& view, std::size_t item) {
  const std::int32_t dimensions = view.dimensions;
  if (dimensions < 0 || dimensions > static_cast<std::int32_t>(internal::tensor::max_dimensions)) {
    refuse("ndim", "0 to 64 dimensions", std::to_string(dimensions));
  }
  if (dimensions == 0) return {};
  if (view.shape == nullptr) refuse("shape", "not null if the tensor has dimensions", "null");
  std::vector<std::int64_t> shape(view.shape, view.shape + dimensions);
  for (const std::int64_t each : shape) {
    if (each < 0) refuse("shape", "an extent is not negative", text_of(shape));
  }
  if (!internal::tensor::element_count(shape, item)) {
    refuse("shape", "all elements together have less than 2^63 bytes", text_of(shape));
  }
  return shape;
}

std::vector<std::int64_t> strides_of_view(const TensorView& view,
                                          const std::vector<std::int64_t>& shape) {
  if (view.strides == nullptr || shape.empty()) return internal::tensor::contiguous_strides(shape);
  std::vector<std::int64_t> strides(view.strides, view.strides + shape.size());
  bool negative = false;
  for (std::size_t i = 0; i < shape.size(); ++i) negative |= strides[i] < 0;
  if (negative)
    refuse("strides", "none is negative; copy the tensor where it was made", text_of(strides));
  return strides;
}

// Validates the complete view before any use of it.
TensorParts parts_of(const TensorView& view, const std::shared_ptr<const void>& owner,
                     bool read_only) {
  TensorParts parts;
  parts.dtype = dtype_of_view(view);
  parts.device = device_of_view(view);
  const std::size_t item = item_bytes(parts.dtype);
  parts.shape = shape_of_view(view, item);
  parts.strides = strides_of_view(view, parts.shape);
  if (internal::tensor::element_count(parts.shape, item) == 0) return parts;
  const auto elements = internal::tensor::extent(parts.shape, parts.strides);
  const auto bytes = elements
                         ? internal::tensor::product(*elements, static_cast<std::int64_t>(item))
                         : std::nullopt;
  if (!bytes)
    refuse("strides", "the last element is within 2^63 bytes of the first", text_of(parts.strides));
  if (view.data == nullptr) refuse("data", "not null if the tensor has elements", "null");
  const std::uint64_t end_of_memory = std::numeric_limits<std::uintptr_t>::max();
  const auto base = reinterpret_cast<std::uintptr_t>(view.data);
  const auto size = static_cast<std::uint64_t>(*bytes);
  if (view.byte_offset >
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) - size ||
      view.byte_offset + size > end_of_memory - base) {
    refuse("byte_offset", "all elements are within the address space",
           std::to_string(view.byte_offset));
  }
  parts.byte_offset = static_cast<std::int64_t>(view.byte_offset);
  parts.storage = std::make_shared<TensorStorage>(
      static_cast<std::byte*>(view.data), static_cast<std::size_t>(view.byte_offset + size),
      parts.device, owner, read_only ? "it was imported by DLPack as read-only" : "");
  return parts;
}

// ---- export -------------------------------------------------------------------------------------

// Owner of an exported tensor. The importer deletes it on any thread.
template <class Form>
struct Exported {
  Form form{};
  Tensor tensor;  // owns memory, shape, and strides
};

template <class Form, class Given>
void end_export(Given* self) {
  if (!exports().end(self))
    return internal::log_error("the deleter of a DLPack tensor of this library was called again");
  delete static_cast<Exported<Form>*>(reinterpret_cast<Form*>(self)->context);
}

// A tensor of this library that returns through DLPack is the original tensor, with its readers.
template <class Form, class Given>
std::optional<Tensor> own(Given* managed) {
  const auto* form = reinterpret_cast<const Form*>(managed);
  if (form->deleter != &end_export<Form, Given>) return std::nullopt;
  Tensor tensor = static_cast<const Exported<Form>*>(form->context)->tensor;
  end_export<Form, Given>(managed);
  return tensor;
}

template <class Form, class Given>
Form* exported(const Tensor& tensor) {
  auto* made = new Exported<Form>{{}, tensor};
  made->form.context = made;
  made->form.deleter = &end_export<Form, Given>;
  const auto& parts = made->tensor.parts();
  TensorView& view = made->form.tensor;
  // The pointer includes the offset, because some consumers ignore byte_offset.
  view.data = const_cast<void*>(made->tensor.data());
  view.device = parts.device.kind == Device::cpu
                    ? internal::dlpack::DeviceId{internal::dlpack::device_cpu, 0}
                    : internal::dlpack::DeviceId{internal::dlpack::device_cuda, parts.device.index};
  view.dimensions = static_cast<std::int32_t>(parts.shape.size());
  const TypeRow& type = types[static_cast<std::size_t>(parts.dtype)];
  view.type = {type.code, type.bits, 1};
  view.shape = const_cast<std::int64_t*>(parts.shape.data());
  view.strides = const_cast<std::int64_t*>(parts.strides.data());
  view.byte_offset = 0;
  (void)exports().begin(&made->form);
  return &made->form;
}

template <class Given>
std::shared_ptr<const void> borrowed(Given* managed, void (*deleter)(Given*)) {
  if (deleter != nullptr && !imports().begin(managed)) {
    refuse(argument,
           "each is imported once, since its deleter is called once; its tensor may be copied",
           "an imported one");
  }
  return {managed, [deleter](Given* given) { end(given, deleter); }};
}

}  // namespace

Tensor Tensor::from_dlpack(DLManagedTensor* managed, void*) {
  if (managed == nullptr) refuse(argument, "not null", "null");
  if (auto back = own<Managed>(managed)) return std::move(*back);
  const auto* form = reinterpret_cast<const Managed*>(managed);
  const auto owner = borrowed(managed, form->deleter);
  return Tensor(parts_of(form->tensor, owner, false));
}

Tensor Tensor::from_dlpack(DLManagedTensorVersioned* managed, void*) {
  if (managed == nullptr) refuse(argument, "not null", "null");
  if (auto back = own<ManagedVersioned>(managed)) return std::move(*back);
  const auto* form = reinterpret_cast<const ManagedVersioned*>(managed);
  const auto owner = borrowed(managed, form->deleter);
  const auto version = form->version;
  if (version.major != internal::dlpack::major_version) {
    // Another major version may change all fields except version, context, and deleter.
    refuse("version", "DLPack 1", fmt::format("{}.{}", version.major, version.minor));
  }
  return Tensor(
      parts_of(form->tensor, owner, (form->flags & internal::dlpack::flag_read_only) != 0));
}

DLManagedTensorVersioned* Tensor::to_dlpack(void*) const {
  auto* form = exported<ManagedVersioned, DLManagedTensorVersioned>(*this);
  form->version = {internal::dlpack::major_version, internal::dlpack::minor_version};
  form->flags = detail::readers_of(parts_).empty() ? 0 : internal::dlpack::flag_read_only;
  return reinterpret_cast<DLManagedTensorVersioned*>(form);
}

DLManagedTensor* Tensor::to_dlpack_unversioned(void*) const {
  const auto readers = detail::readers_of(parts_);
  if (!readers.empty()) internal::tensor::refuse_shared("to_dlpack_unversioned", *this, readers);
  return reinterpret_cast<DLManagedTensor*>(exported<Managed, DLManagedTensor>(*this));
}

}  // namespace mobula
