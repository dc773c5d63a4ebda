// Tensors from outside: inside values, and described by DLPack. The first byte selects.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <mobula/errors.h>
#include <mobula/exceptions.h>
#include <mobula/serialize.h>
#include <mobula/tensor.h>

#include "tensor/dlpack_abi.h"

namespace mobula {
namespace {

// Reads every byte in element order. Encoding and decoding the tensor must return the same bytes.
void inspect(const Tensor& tensor) {
  const Tensor packed = tensor.contiguous();
  const auto bytes = packed.view<std::byte>();
  const auto written = detail::to_bytes(tensor);
  const Tensor again = detail::decode<Tensor>({.bytes = written}).contiguous();
  if (again.shape() != tensor.shape() || again.dtype() != tensor.dtype() ||
      !std::ranges::equal(again.view<std::byte>(), bytes)) {
    std::abort();
  }
}

void inspect(const std::vector<Tensor>& tensors) {
  for (const Tensor& each : tensors) inspect(each);
}

template <class T>
void decode(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner) {
  try {
    Reader in(bytes, {}, owner);
    inspect(in.read<T>());
  } catch (const SerializationError&) {
  }
}

// The input is the description. The described memory does not exist.
void import(std::string_view text) {
  internal::dlpack::ManagedVersioned form{};
  std::memcpy(&form, text.data(), std::min(text.size(), sizeof form));
  std::vector<std::int64_t> numbers(130);
  if (text.size() > sizeof form) {
    text.remove_prefix(sizeof form);
    std::memcpy(numbers.data(), text.data(),
                std::min(text.size(), numbers.size() * sizeof(std::int64_t)));
  }
  static int deleted;
  deleted = 0;
  form.deleter = [](DLManagedTensorVersioned*) { ++deleted; };
  if (form.tensor.shape != nullptr) form.tensor.shape = numbers.data();
  if (form.tensor.strides != nullptr) form.tensor.strides = numbers.data() + 65;
  try {
    const Tensor tensor = Tensor::from_dlpack(reinterpret_cast<DLManagedTensorVersioned*>(&form));
    const Tensor again = Tensor::from_dlpack(tensor.to_dlpack());
    if (again.data() != tensor.data() || again.bytes() != tensor.bytes()) std::abort();
    if (!tensor.shape().empty()) static_cast<void>(tensor.transpose(0, -1).is_contiguous());
    static_cast<void>(tensor.reshape({-1}));
  } catch (const InvalidRequestError&) {
  }
  if (deleted != 1) std::abort();
}

void try_tensor(std::uint8_t which, std::string_view text) {
  if (which % 4 == 3) return import(text);
  // Objects are aligned to 64 bytes. The block has exactly the size of the object, so that the
  // sanitizer detects an access past its end.
  constexpr std::align_val_t alignment{64};
  const std::shared_ptr<void> memory(::operator new(text.size(), alignment),
                                     [](void* held) { ::operator delete(held, alignment); });
  std::memcpy(memory.get(), text.data(), text.size());
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(memory.get()), text.size());
  switch (which % 4) {
    case 0: return decode<Tensor>(bytes, memory);
    case 1: return decode<Tensor>(bytes, nullptr);
    default: return decode<std::vector<Tensor>>(bytes, memory);
  }
}

}  // namespace
}  // namespace mobula

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  mobula::try_tensor(data[0], std::string_view(reinterpret_cast<const char*>(data + 1), size - 1));
  return 0;
}
