// Tensors of Mobula for Python's ctypes. NumPy, which has DLPack's layout from its own header,
// reads and is read. Loaded only by `dlpack_numpy.py`.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

#include <mobula/tensor.h>

#include "tensor/dlpack_abi.h"

namespace {

using mobula::DType;
using mobula::Tensor;

std::string last_error;

template <class Call>
auto guarded(const Call& call, decltype(call()) otherwise) -> decltype(call()) {
  last_error.clear();
  try {
    return call();
  } catch (const std::exception& error) {
    last_error = error.what();
    return otherwise;
  }
}

DType named(std::string_view name) {
  for (int i = 0; mobula::item_bytes(static_cast<DType>(i)) > 0; ++i) {
    if (mobula::dtype_name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  throw std::runtime_error("no dtype is called " + std::string(name));
}

void* given(const Tensor& tensor, bool versioned) {
  if (versioned) return tensor.to_dlpack();
  return tensor.to_dlpack_unversioned();
}

}  // namespace

extern "C" {

const char* mobula_shim_error() { return last_error.c_str(); }

// Makes a tensor with three extents from these bytes and swaps its first and last dimension.
void* mobula_shim_make(const char* dtype, const std::int64_t* extents, const void* bytes,
                       int versioned) {
  return guarded(
      [&] {
        Tensor made = Tensor::empty({extents[0], extents[1], extents[2]}, named(dtype));
        const auto elements = made.mutable_view<std::byte>();
        if (!elements.empty()) std::memcpy(elements.data(), bytes, elements.size());
        return given(made.transpose(0, 2), versioned != 0);
      },
      static_cast<void*>(nullptr));
}

// Imports a DLPack tensor and writes its elements, extents, and dtype name if they fit. Returns the
// number of dimensions, or -1 with an error.
int mobula_shim_take(void* managed, int versioned, void* bytes, std::size_t capacity,
                     std::int64_t* extents, char* dtype) {
  return guarded(
      [&] {
        const Tensor there =
            versioned != 0 ? Tensor::from_dlpack(static_cast<DLManagedTensorVersioned*>(managed))
                           : Tensor::from_dlpack(static_cast<DLManagedTensor*>(managed));
        const Tensor whole = there.contiguous();
        const auto all = whole.view<std::byte>();
        if (all.size() > capacity) throw std::runtime_error("the elements exceed the buffer");
        if (!all.empty()) std::memcpy(bytes, all.data(), all.size());
        std::copy(there.shape().begin(), there.shape().end(), extents);
        const auto name = mobula::dtype_name(there.dtype());
        std::memcpy(dtype, name.data(), name.size());
        dtype[name.size()] = '\0';
        return static_cast<int>(there.shape().size());
      },
      -1);
}

// Deletes the tensor, as consumers do with an unused capsule.
void mobula_shim_delete(void* managed, int versioned) {
  using namespace mobula::internal::dlpack;
  if (versioned != 0) {
    auto* const whole = static_cast<ManagedVersioned*>(managed);
    return whole->deleter(reinterpret_cast<DLManagedTensorVersioned*>(whole));
  }
  auto* const whole = static_cast<Managed*>(managed);
  whole->deleter(reinterpret_cast<DLManagedTensor*>(whole));
}
}
