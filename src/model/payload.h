// An opaque, immutable run of bytes on its way through cores: an encoded value, an error record.
// Cores move it, drop it and ask its size; only shells read the bytes. A few bytes lie inside, so that
// small values, as most results are, allocate nothing; more are shared: the same bytes wait in a resend
// window and in lineage, and the last holder frees them. What bytes() returns lies in this payload: a copy,
// or this one moved, has them elsewhere. Values; safe to pass between threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace mobula::internal {

class Payload {
 public:
  Payload() = default;
  explicit Payload(std::span<const std::byte> bytes) {
    std::ranges::copy(bytes, resize(bytes.size()).begin());
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<const std::byte> bytes() const { return {size_ <= few ? few_.data() : many_.get(), size_}; }
  // So many new bytes in the place of those it had, to be written before anybody else has them.
  std::span<std::byte> resize(std::size_t size) {
    size_ = size;
    many_ = nullptr;
    if (size <= few) return {few_.data(), size};
    auto block = std::make_shared_for_overwrite<std::byte[]>(size);
    const std::span<std::byte> bytes(block.get(), size);
    many_ = std::move(block);
    return bytes;
  }
  friend bool operator==(const Payload& a, const Payload& b) {
    return a.size_ == b.size_ && std::ranges::equal(a.bytes(), b.bytes());
  }

 private:
  static constexpr std::size_t few = 40;

  std::size_t size_ = 0;
  std::array<std::byte, few> few_{};
  std::shared_ptr<const std::byte[]> many_;
};

}  // namespace mobula::internal
