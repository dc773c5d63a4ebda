// Untyped values from outside: the parts of a payload, and neutral values. The first byte selects.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include <mobula/errors.h>
#include <mobula/neutral.h>

#include "client/console/json_msgpack.h"

namespace mobula::dynamic {
namespace {

constexpr std::size_t header_bytes = 16;

// The bytes that precede the prefix of each untyped value.
const std::vector<std::byte>& header() {
  static const std::vector<std::byte> bytes = [] {
    const Payload empty("fuzz/1", {});
    std::vector<std::byte> written(empty.size_bytes());
    if (!empty.write(written)) std::abort();
    written.resize(header_bytes);
    return written;
  }();
  return bytes;
}

// A value in a block that ends with it, so that the sanitizer detects an access past its end. The
// value is aligned to 64 bytes, as in the store, or shifted, as in a message.
StoredPayload stored(std::span<const std::byte> bytes, std::size_t shift) {
  constexpr std::align_val_t alignment{64};
  const std::shared_ptr<void> memory(::operator new(bytes.size() + shift, alignment),
                                     [](void* held) { ::operator delete(held, alignment); });
  auto* const first = static_cast<std::byte*>(memory.get()) + shift;
  std::ranges::copy(bytes, first);
  return StoredPayload(std::make_shared<const detail::StoredValue>(
      detail::StoredValue{.bytes = {first, bytes.size()}, .owner = memory}));
}

// Reads every byte of every part.
void read_parts(const StoredPayload& value) {
  try {
    static_cast<void>(value.format());
    const auto parts = value.parts();
    std::size_t sum = 0;
    for (const std::byte each : parts.body) sum += static_cast<std::size_t>(each);
    for (const auto& buffer : parts.buffers) {
      if (reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 != 0) std::abort();
      for (const std::byte each : buffer) sum += static_cast<std::size_t>(each);
    }
    if (sum == ~std::size_t{0}) std::abort();
  } catch (const SerializationError&) {
  }
}

NeutralValue written_again(const NeutralValue& value) {
  const Payload payload = neutral_payload(value);
  std::vector<std::byte> bytes(payload.size_bytes());
  if (!payload.write(bytes)) std::abort();
  return neutral_value(stored(bytes, 0));
}

// As ==, but NaN equals NaN.
bool is_equal(const NeutralValue& a, const NeutralValue& b) {
  const auto* const number = std::get_if<double>(&a.content());
  const auto* const list = std::get_if<List>(&a.content());
  const auto* const rows = std::get_if<Dictionary>(&a.content());
  if (a.content().index() != b.content().index()) return false;
  if (number != nullptr) {
    const double other = std::get<double>(b.content());
    return *number == other || (*number != *number && other != other);
  }
  if (list != nullptr) return std::ranges::equal(*list, std::get<List>(b.content()), is_equal);
  if (rows == nullptr) return a == b;
  return std::ranges::equal(
      *rows, std::get<Dictionary>(b.content()), [](const auto& left, const auto& right) {
        return left.first == right.first && is_equal(left.second, right.second);
      });
}

// The input is msgpack. A value that is read is written as an equal one.
void read_neutral(std::span<const std::byte> body) {
  const std::vector<Tensor> tensors{Tensor::from({1.0F, 2.0F})};
  static_cast<void>(
      internal::runtime::console::json_of_msgpack(body, {.refs = {}, .tensors = tensors}));
  const Payload payload(neutral_format, {.body = body, .tensors = tensors});
  std::vector<std::byte> bytes(payload.size_bytes());
  if (!payload.write(bytes)) std::abort();
  try {
    const NeutralValue value = neutral_value(stored(bytes, 0));
    if (!is_equal(value, written_again(value))) std::abort();
  } catch (const SerializationError&) {
  }
}

void try_value(std::uint8_t which, std::span<const std::byte> input) {
  if (which % 4 == 3) return read_neutral(input);
  if (which % 4 == 2) return read_parts(stored(input, 0));
  std::vector<std::byte> bytes = header();
  bytes.insert(bytes.end(), input.begin(), input.end());
  read_parts(stored(bytes, which % 4 == 0 ? 0 : 8));
}

}  // namespace
}  // namespace mobula::dynamic

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  mobula::dynamic::try_value(data[0], std::as_bytes(std::span(data + 1, size - 1)));
  return 0;
}
