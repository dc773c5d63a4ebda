// How endpoints, tickets and messages of transports are written: numbers little-endian, stretches of
// bytes with their length. A reader never reads past its bytes, and says at the end whether all was
// well, so that each field need not be asked. Values; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/id.h"
#include "base/result.h"
#include "transport/direct/tensor_transport.h"

namespace mobula::internal {

// Which transport wrote a blob. Values travel: append only.
enum class DirectKind : std::uint8_t { inproc = 1, shm = 2, tcp = 3, cuda_ipc = 6, nccl = 7, plugin = 8 };

// 128 random bits that stand for a right.
struct DirectToken {
  Hash128 bits;
  static DirectToken random() { return {random_bits()}; }
  // Takes the same time wherever they differ.
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

  // What is not there is read as zero, and makes this broken.
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
  // corrupt unless all fields were there and nothing is left.
  Result<void> finish(std::string_view what) const;

 private:
  std::span<const std::byte> rest_;
  bool broken_ = false;
};

// The begin of every endpoint and ticket.
void put_direct_head(BlobWriter& to, DirectKind kind);
// corrupt for what is not of this kind, naming a version that is not this program's.
Result<void> take_direct_head(BlobReader& from, DirectKind kind, std::string_view what);

}  // namespace mobula::internal
