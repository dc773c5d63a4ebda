// Tensors: elements of one type in shared memory, with a shape and strides.
// Thread: any; the user orders writes to elements.
// Owner: copies and the results of `reshape` and `transpose` are views of one buffer, which the
// last view frees.
// Errors: `InvalidRequestError` with the field and the rule.
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

// Declared by DLPack (https://dmlc.github.io/dlpack). Its header is not needed here.
// DLPack's tensor without a version.
struct DLManagedTensor;
// DLPack's tensor with a version.
struct DLManagedTensorVersioned;

namespace mobula {

class Reader;
class Writer;

// A shape: `{2, 3}`, or any range of integers.
class Extents {
 public:
  // One extent, converted from any integer type.
  struct Extent {
    // Converts an integer; a size_t is not a narrowing error.
    template <std::integral Number>
    constexpr Extent(Number number)  // NOLINT: implicit, and a size_t is no narrowing error
        : value(static_cast<std::int64_t>(number)) {}
    std::int64_t value;  // number of elements in this dimension
  };

  // Creates the shape without dimensions.
  Extents() = default;
  // Creates a shape from a braced list.
  Extents(std::initializer_list<Extent> extents) {  // NOLINT: implicit
    for (const Extent& each : extents) values_.push_back(each.value);
  }
  // Creates a shape from a vector.
  Extents(std::vector<std::int64_t> values) : values_(std::move(values)) {}  // NOLINT: implicit
  // Creates a shape from any contiguous range of integers.
  template <class Range>
  requires requires(const Range& range) {
    { std::span(range)[0] } -> std::convertible_to<Extent>;
  }
  Extents(const Range& range) {  // NOLINT: implicit
    for (const Extent each : std::span(range)) values_.push_back(each.value);
  }

  // Returns the extents in order.
  const std::vector<std::int64_t>& values() const { return values_; }

 private:
  std::vector<std::int64_t> values_;
};

namespace detail {

class TensorStorage;

// The members of a Tensor. `storage` is null if the tensor has no bytes.
struct TensorParts {
  std::shared_ptr<TensorStorage> storage = {};
  std::vector<std::int64_t> shape = {0};
  std::vector<std::int64_t> strides = {1};  // in elements; never negative
  std::int64_t byte_offset = 0;             // offset of the first element in the storage
  DType dtype = DType::float32;
  Device device = {};
};

// The element type that a caller requests.
struct ElementType {
  DType dtype;
  bool any;  // accepts every dtype, as bytes
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

// A tensor: a shape, strides, a dtype, and a view of shared memory. A tensor that came out of an
// object (a parameter of a task, the result of `get`) is stored in the object and is read-only:
// `mutable_view` and `mutable_data` throw, and `clone` returns a writable copy. The rule is
// cooperative: code that keeps a raw pointer can still write.
//
// Tensors can be passed, returned, and stored inside other values. Their bytes are copied once,
// into the object, and are read there.
class MOBULA_API Tensor {
 public:
  // Creates a tensor of one dimension without elements, in host memory.
  Tensor() = default;

  // Returns a tensor with uninitialized elements. The shape has at most 64 dimensions; `{}` is one
  // element without dimensions. The elements are contiguous, the last dimension first, and aligned
  // to 64 bytes. `OutOfMemoryError` if the memory is exhausted; a device tensor must fit into this
  // process's share.
  static Tensor empty(const Extents& shape, DType dtype = DType::float32, Device device = {});
  // Returns a tensor whose elements are 0; see `empty`.
  static Tensor zeros(const Extents& shape, DType dtype = DType::float32, Device device = {});

  // Returns a one-dimensional copy of a vector, array, or span.
  template <class Range>
  requires requires(const Range& range) { std::span(range); }
  static Tensor from(const Range& elements) {
    const std::span all(elements);
    using T = std::remove_cv_t<typename decltype(all)::element_type>;
    return copy_of(all.data(), all.size(), dtype_of<T>, sizeof(T));
  }
  // Returns a one-dimensional copy of a braced list.
  template <class T>
  static Tensor from(std::initializer_list<T> elements) {
    return copy_of(elements.begin(), elements.size(), dtype_of<T>, sizeof(T));
  }

  // Returns a one-dimensional tensor over the memory of a vector, array, span, or Eigen map,
  // without a copy. The last view releases `owner`, also if another process reads it. Without an
  // owner, the memory must outlive all views. Const elements are never written.
  template <class Range>
  requires requires(Range& range) { std::span(range); }
  static Tensor over(Range&& elements, std::shared_ptr<const void> owner) {
    const std::span all(elements);
    using T = typename decltype(all)::element_type;
    return of_memory(all.data(), all.size(), dtype_of<std::remove_cv_t<T>>, sizeof(T),
                     std::is_const_v<T>, std::move(owner));
  }

  // Takes over the memory that DLPack describes, without a copy. Its deleter is called once, by the
  // thread that releases the last view, or before this function throws. Memory of a CUDA device
  // stays on its device. Rejects sub-byte types, vector elements, negative strides, managed memory,
  // and other devices.
  static Tensor from_dlpack(DLManagedTensor* managed, void* stream = nullptr);
  // Takes over the memory of a versioned DLPack tensor.
  static Tensor from_dlpack(DLManagedTensorVersioned* managed, void* stream = nullptr);
  // Exports the same memory. The caller of the deleter ends its use. Read-only tensors are flagged.
  [[nodiscard]] DLManagedTensorVersioned* to_dlpack(void* stream = nullptr) const;
  // Exports the same memory in the unversioned form, which cannot flag read-only tensors:
  // `TensorSharedError` for them.
  [[nodiscard]] DLManagedTensor* to_dlpack_unversioned(void* stream = nullptr) const;

  // Returns the extents.
  const std::vector<std::int64_t>& shape() const { return parts_.shape; }
  // Returns the strides in elements.
  const std::vector<std::int64_t>& strides() const { return parts_.strides; }
  // Returns the element type.
  DType dtype() const { return parts_.dtype; }
  // Returns the location of the memory.
  Device device() const { return parts_.device; }
  // Returns the number of elements.
  std::int64_t size() const;
  // Returns the size of all elements in bytes.
  std::int64_t bytes() const;
  // Reports whether the elements are contiguous, the last dimension first.
  bool is_contiguous() const;

  // Returns a view with another shape. One extent may be -1: it is inferred. `InvalidRequestError`
  // if the strides permit no such view; call `contiguous` first.
  Tensor reshape(const Extents& shape) const;
  // Returns a view with two dimensions swapped. Negative indices count from the end.
  Tensor transpose(int a, int b) const;
  // Returns this tensor if it is contiguous, otherwise a clone.
  Tensor contiguous(void* stream = nullptr) const;
  // Returns a contiguous, writable copy on the same device, complete for every stream. The copy
  // waits for earlier work on `stream` and on the stream of `produced_on`. Without `produced_on`,
  // it waits for all work that this process issued on the device.
  Tensor clone(void* stream = nullptr) const;
  // Returns this tensor if it is on `device`, otherwise a clone there.
  Tensor to(Device device, void* stream = nullptr) const;

  // Returns the elements of a contiguous tensor in host memory. T must match the dtype (see
  // `dtype_of`), or be std::byte.
  template <class T>
  std::span<const T> view() const {
    const void* first = readable(detail::element_type<T>());
    return {static_cast<const T*>(first), static_cast<std::size_t>(bytes()) / sizeof(T)};
  }
  // Returns the elements for writing. `TensorSharedError` while the runtime or another holder may
  // read them.
  template <class T>
  std::span<T> mutable_view() {
    void* first = writable(detail::element_type<T>());
    return {static_cast<T*>(first), static_cast<std::size_t>(bytes()) / sizeof(T)};
  }
  // Returns the address of the first element on its device, for any strides; null without elements.
  const void* data() const;
  // Returns the address of the first element for writing. It throws as `mutable_view` does, and
  // also if elements may overlap.
  void* mutable_data();

  // Declares that kernels on `stream` write these elements; a sender waits for them. Without effect
  // for host memory.
  Tensor& produced_on(void* stream);

  // For the library.
  explicit Tensor(detail::TensorParts parts) : parts_(std::move(parts)) {}
  // For the library.
  const detail::TensorParts& parts() const { return parts_; }

 private:
  static Tensor copy_of(const void* elements, std::size_t count, DType dtype, std::size_t each);
  static Tensor of_memory(const void* elements, std::size_t count, DType dtype, std::size_t each,
                          bool read_only, std::shared_ptr<const void> owner);
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
