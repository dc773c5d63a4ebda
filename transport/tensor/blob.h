// Encoding of the endpoints, offer handles, and messages of transports: little-endian numbers, and
// byte strings with a length. A reader never reads past its end, and reports at finish() whether
// every field was complete.
// Thread: any (values).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/id.h"
#include "base/result.h"
#include "transport/tensor/tensor_transport.h"

namespace mobula::internal {

// Transport that wrote a blob. The values are sent to other processes: append only.
enum class DirectKind : std::uint8_t {
  inproc = 1,
  shm = 2,
  tcp = 3,
  cuda_ipc = 6,
  nccl = 7,
  plugin = 8
};

// 128 random bits that serve as an access token.
struct DirectToken {
  Hash128 bits;
  static DirectToken random() { return {random_bits()}; }
  // Compares in constant time.
  bool matches(const DirectToken& other) const {
    return ((bits.high ^ other.bits.high) | (bits.low ^ other.bits.low)) == 0;
  }
};

class BlobWriter {
 public:
  BlobWriter& byte(std::uint8_t value);
  BlobWriter& number(std::uint64_t value);
  BlobWriter& bits(Hash128 value);
  BlobWriter& token(const DirectToken& value) { return bits(value.bits); }
  BlobWriter& text(std::string_view value);
  BlobWriter& raw(std::span<const std::byte> value);
  template <class Tag>
  BlobWriter& id(const Id<Tag>& value) {
    return bits(value.bits());
  }

  std::span<const std::byte> bytes() const { return bytes_; }
  Blob take() { return std::move(bytes_); }

 private:
  Blob bytes_;
};

class BlobReader {
 public:
  explicit BlobReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  // A missing field is read as zero and makes the reader broken.
  std::uint8_t byte();
  std::uint64_t number();
  Hash128 bits();
  DirectToken token() { return {bits()}; }
  std::string text(std::size_t most);
  std::span<const std::byte> raw(std::size_t size);
  template <class IdType>
  IdType id() {
    return IdType(bits());
  }

  void break_off() { broken_ = true; }
  bool broken() const { return broken_; }
  std::size_t left() const { return rest_.size(); }
  // Errors: corrupt unless all fields were complete and no bytes are left.
  Result<void> finish(std::string_view what) const;

 private:
  std::span<const std::byte> rest_;
  bool broken_ = false;
};

// The start of each endpoint and offer handle.
void put_direct_head(BlobWriter& to, DirectKind kind);
// Errors: corrupt for another kind or version; the text names the version.
Result<void> take_direct_head(BlobReader& from, DirectKind kind, std::string_view what);

}  // namespace mobula::internal
