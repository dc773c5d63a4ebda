// An opaque, immutable byte string: an encoded value or error record. Cores move it, drop it, and
// read its size; only shells read the bytes. Short payloads are stored inside, so most results
// allocate nothing. Longer ones are shared, for example between a resend queue and lineage, and the
// last holder frees them.
// Thread: any for a copy per thread.
// Not: stable addresses. bytes() points into this object; a copied or moved payload has other
// addresses.
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
  std::span<const std::byte> bytes() const {
    return {size_ <= few ? few_.data() : many_.get(), size_};
  }
  // Replaces the contents by `size` new bytes, which must be written before the payload is copied.
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
