// An opaque, immutable run of bytes on its way through cores: an encoded value, an error record.
// Cores move it, drop it and ask its size; only shells read the bytes. Shared ownership is deliberate:
// the same bytes wait in a resend window and in lineage, and the last holder frees them.
// Values; safe to pass between threads.
#pragma once

#include <cstddef>
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mobula::internal {

class Payload {
 public:
  Payload() = default;
  explicit Payload(std::vector<std::byte> bytes)
      : bytes_(std::make_shared<const std::vector<std::byte>>(std::move(bytes))) {}

  std::size_t size() const { return bytes_ ? bytes_->size() : 0; }
  bool empty() const { return size() == 0; }
  std::span<const std::byte> bytes() const {
    return bytes_ ? std::span<const std::byte>(*bytes_) : std::span<const std::byte>();
  }
  friend bool operator==(const Payload& a, const Payload& b) {
    return a.bytes_ == b.bytes_ ||
           (a.size() == b.size() && std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin()));
  }

 private:
  std::shared_ptr<const std::vector<std::byte>> bytes_;
};

}  // namespace mobula::internal
