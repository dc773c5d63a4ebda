#include "transport/tensor/blob.h"

#include <fmt/format.h>

#include <algorithm>

namespace mobula::internal {
namespace {

constexpr std::uint8_t direct_version = 1;
constexpr std::uint8_t direct_magic = 0xd7;

}  // namespace

BlobWriter& BlobWriter::byte(std::uint8_t value) {
  bytes_.push_back(static_cast<std::byte>(value));
  return *this;
}

BlobWriter& BlobWriter::number(std::uint64_t value) {
  for (unsigned i = 0; i < 8; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  return *this;
}

BlobWriter& BlobWriter::bits(Hash128 value) { return number(value.high).number(value.low); }

BlobWriter& BlobWriter::text(std::string_view value) {
  number(value.size());
  return raw(std::as_bytes(std::span(value)));
}

BlobWriter& BlobWriter::raw(std::span<const std::byte> value) {
  bytes_.insert(bytes_.end(), value.begin(), value.end());
  return *this;
}

std::span<const std::byte> BlobReader::raw(std::size_t size) {
  if (broken_ || size > rest_.size()) {
    broken_ = true;
    return {};
  }
  const auto taken = rest_.first(size);
  rest_ = rest_.subspan(size);
  return taken;
}

std::uint8_t BlobReader::byte() {
  const auto taken = raw(1);
  return taken.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(taken.front());
}

std::uint64_t BlobReader::number() {
  std::uint64_t value = 0;
  const auto taken = raw(8);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    value |= static_cast<std::uint64_t>(taken[i]) << (8 * i);
  }
  return value;
}

Hash128 BlobReader::bits() {
  const std::uint64_t high = number();
  const std::uint64_t low = number();
  return {high, low};
}

std::string BlobReader::text(std::size_t most) {
  const std::uint64_t size = number();
  if (size > most) broken_ = true;
  const auto taken = raw(broken_ ? 0 : static_cast<std::size_t>(size));
  return {reinterpret_cast<const char*>(taken.data()), taken.size()};
}

Result<void> BlobReader::finish(std::string_view what) const {
  if (!broken_ && rest_.empty()) return {};
  return failure(ErrorCode::corrupt,
                 broken_ ? fmt::format("{} is shorter than its fields", what)
                         : fmt::format("{} has {} bytes too many", what, rest_.size()));
}

void put_direct_head(BlobWriter& to, DirectKind kind) {
  to.byte(direct_magic).byte(static_cast<std::uint8_t>(kind)).byte(direct_version);
}

Result<void> take_direct_head(BlobReader& from, DirectKind kind, std::string_view what) {
  const std::uint8_t magic = from.byte();
  const std::uint8_t of = from.byte();
  const std::uint8_t version = from.byte();
  if (from.broken() || magic != direct_magic || of != static_cast<std::uint8_t>(kind)) {
    return failure(ErrorCode::corrupt, fmt::format("{} is not one of this transport", what));
  }
  if (version == direct_version) return {};
  return failure(ErrorCode::corrupt, fmt::format("{} is of version {}; this program speaks {}",
                                                 what, version, direct_version));
}

}  // namespace mobula::internal
