// Tensor: elements of one type in memory that several may share, with a shape and strides. Copies,
// and what reshape and transpose give, are other looks at the same memory, which goes with the last
// of them. Any thread; writing to elements is ordered by whoever writes.
//
// A tensor that came out of an object (a parameter of a task, the result of get) lies in the object
// itself and may only be read: mutable_view and mutable_data refuse, clone() gives one that may be
// written. That is cooperative: who keeps a raw pointer can still write.
//
// Tensors may be passed, returned and stored inside other values. Their bytes are copied once, into
// the object, and read there. What breaks a rule below is an InvalidRequestError that names the
// field and the rule.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobula/detail/export.h>
#include <mobula/detail/type_name.h>
#include <mobula/device.h>
#include <mobula/dtype.h>

// Of DLPack (https://dmlc.github.io/dlpack); its header is not needed here.
struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace mobula {

class Reader;
class Writer;

// A shape: `{2, 3}`, or any range of integers.
class Extents {
 public:
  struct Extent {
    template <std::integral Number>
    constexpr Extent(Number number)  // NOLINT: implicit, and a size_t is no narrowing error
        : value(static_cast<std::int64_t>(number)) {}
    std::int64_t value;
  };

  Extents() = default;
  Extents(std::initializer_list<Extent> extents) {  // NOLINT: implicit
    for (const Extent& each : extents) values_.push_back(each.value);
  }
  Extents(std::vector<std::int64_t> values) : values_(std::move(values)) {}  // NOLINT: implicit
  template <class Range>
  requires requires(const Range& range) {
    { std::span(range)[0] } -> std::convertible_to<Extent>;
  }
  Extents(const Range& range) {  // NOLINT: implicit
    for (const Extent each : std::span(range)) values_.push_back(each.value);
  }

  const std::vector<std::int64_t>& values() const { return values_; }

 private:
  std::vector<std::int64_t> values_;
};

namespace detail {

class TensorStorage;

// What a Tensor is made of. `storage` is null where there are no bytes.
struct TensorParts {
  std::shared_ptr<TensorStorage> storage = {};
  std::vector<std::int64_t> shape = {0};
  std::vector<std::int64_t> strides = {1};  // elements; none is negative
  std::int64_t byte_offset = 0;             // of the first element, in the storage
  DType dtype = DType::float32;
  Device device = {};
};

// What a caller wants to see the elements as.
struct ElementType {
  DType dtype;
  bool any;  // bytes: whatever the elements are
  std::size_t alignment;
};

template <class T>
constexpr ElementType element_type() {
  if constexpr (std::is_same_v<T, std::byte>) {
    return {DType::uint8, true, 1};
  } else {
    static_assert(std::is_trivially_copyable_v<T>, "mobula: elements are trivially copyable");
    return {dtype_of<T>, false, alignof(T)};
  }
}

}  // namespace detail

class MOBULA_API Tensor {
 public:
  // One dimension without elements, in host memory.
  Tensor() = default;

  // At most 64 dimensions; `{}` is one element without dimensions. Elements follow each other, the
  // last dimension's first; the first of them lies at a multiple of 64. On a device: within this process's
  // share of it. OutOfMemoryError where there is none.
  static Tensor empty(const Extents& shape, DType dtype = DType::float32, Device device = {});
  static Tensor zeros(const Extents& shape, DType dtype = DType::float32, Device device = {});

  // A copy in one dimension: of a vector, array or span.
  template <class Range>
  requires requires(const Range& range) { std::span(range); }
  static Tensor from(const Range& elements) {
    const std::span all(elements);
    using T = std::remove_cv_t<typename decltype(all)::element_type>;
    return copy_of(all.data(), all.size(), dtype_of<T>, sizeof(T));
  }
  template <class T>
  static Tensor from(std::initializer_list<T> elements) {
    return copy_of(elements.begin(), elements.size(), dtype_of<T>, sizeof(T));
  }

  // The same memory in one dimension, without a copy: of a vector, array, span, or Eigen map's. `owner` is let go of
  // with the last look at it, also by other processes; without one it has to outlive them. Elements that are
  // const are never written.
  template <class Range>
  requires requires(Range& range) { std::span(range); }
  static Tensor over(Range&& elements, std::shared_ptr<const void> owner) {
    const std::span all(elements);
    using T = typename decltype(all)::element_type;
    return of_memory(all.data(), all.size(), dtype_of<std::remove_cv_t<T>>, sizeof(T), std::is_const_v<T>, std::move(owner));
  }

  // Takes over what DLPack describes, without a copy. Its deleter is called once: when the memory is
  // no longer used, by whichever thread lets go last; or before this throws. Memory of a CUDA device
  // is kept with its device. Refused: types of less than a byte, vectors of elements, negative
  // strides, managed memory, other devices.
  static Tensor from_dlpack(DLManagedTensor* managed, void* stream = nullptr);
  static Tensor from_dlpack(DLManagedTensorVersioned* managed, void* stream = nullptr);
  // The same memory for others, who call the deleter when they are done. Read-only is marked, where
  // it is; the unversioned form cannot say it, and throws TensorSharedError instead.
  [[nodiscard]] DLManagedTensorVersioned* to_dlpack(void* stream = nullptr) const;
  [[nodiscard]] DLManagedTensor* to_dlpack_unversioned(void* stream = nullptr) const;

  const std::vector<std::int64_t>& shape() const { return parts_.shape; }
  const std::vector<std::int64_t>& strides() const { return parts_.strides; }  // in elements
  DType dtype() const { return parts_.dtype; }
  Device device() const { return parts_.device; }
  std::int64_t size() const;   // how many elements
  std::int64_t bytes() const;  // of all elements
  // Whether elements follow each other, the last dimension's first.
  bool is_contiguous() const;

  // The same elements in another shape; one extent may be -1: what is left. Refused where the strides
  // allow no such look: then contiguous() first.
  Tensor reshape(const Extents& shape) const;
  // Two dimensions change places; negative ones count from the end.
  Tensor transpose(int a, int b) const;
  // This one, where it is contiguous, else a clone.
  Tensor contiguous(void* stream = nullptr) const;
  // The elements in memory of their own on the same device, contiguous, to be written; there for every
  // stream when it returns. What was issued on `stream` comes first, and what produced_on has named; where
  // it has named nothing, all that this process has issued on the device.
  Tensor clone(void* stream = nullptr) const;
  // This one, where it is on that device, else a clone there.
  Tensor to(Device device, void* stream = nullptr) const;

  // The elements of a contiguous tensor in host memory. T is what `dtype` says (dtype_of), or
  // std::byte.
  template <class T>
  std::span<const T> view() const {
    const void* first = readable(detail::element_type<T>());
    return {static_cast<const T*>(first), static_cast<std::size_t>(bytes()) / sizeof(T)};
  }
  // The same, to write. TensorSharedError while the runtime or another holder may read it.
  template <class T>
  std::span<T> mutable_view() {
    void* first = writable(detail::element_type<T>());
    return {static_cast<T*>(first), static_cast<std::size_t>(bytes()) / sizeof(T)};
  }
  // The first element, on its device, whatever the strides are; null without elements.
  const void* data() const;
  // The same, to write: refused as mutable_view refuses, and where elements may overlap.
  void* mutable_data();

  // Kernels that write these elements run on `stream`: whoever sends the tensor on waits for them.
  // Without effect for host memory.
  Tensor& produced_on(void* stream);

  // For the library.
  explicit Tensor(detail::TensorParts parts) : parts_(std::move(parts)) {}
  const detail::TensorParts& parts() const { return parts_; }

 private:
  static Tensor copy_of(const void* elements, std::size_t count, DType dtype, std::size_t each);
  static Tensor of_memory(const void* elements, std::size_t count, DType dtype, std::size_t each, bool read_only,
                          std::shared_ptr<const void> owner);
  const void* readable(const detail::ElementType& wanted) const;
  void* writable(const detail::ElementType& wanted);

  detail::TensorParts parts_;
};

namespace detail {

template <class T>
struct OwnCodec;

template <>
struct MOBULA_API OwnCodec<Tensor> {
  static constexpr bool supported() { return true; }
  static constexpr std::uint64_t fingerprint(std::uint64_t state) { return mix(state, "tensor"); }
  static void write(Writer& out, const Tensor& tensor);
  static Tensor read(Reader& in);
};

}  // namespace detail

}  // namespace mobula
