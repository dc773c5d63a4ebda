#include "base/model/stream_link.h"

namespace mobula::internal {
namespace {

constexpr std::size_t link_bytes = 37;
constexpr std::byte link_kind{1};

void append(std::vector<std::byte>& out, std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

std::uint64_t number_at(std::span<const std::byte> bytes, std::size_t begin, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value |= static_cast<std::uint64_t>(bytes[begin + i]) << (8 * i);
  return value;
}

}  // namespace

std::vector<std::byte> to_bytes(const StreamLink& link) {
  std::vector<std::byte> bytes{link_kind};
  bytes.reserve(link_bytes);
  append(bytes, link.stream.bits().high, 8);
  append(bytes, link.stream.bits().low, 8);
  append(bytes, link.index, 8);
  append(bytes, link.window, 4);
  append(bytes, static_cast<std::uint64_t>(link.size_bytes), 8);
  return bytes;
}

std::optional<StreamLink> stream_link(std::span<const std::byte> bytes) {
  if (bytes.size() != link_bytes || bytes.front() != link_kind) return std::nullopt;
  StreamLink link;
  link.stream = ObjectId(Hash128{number_at(bytes, 1, 8), number_at(bytes, 9, 8)});
  link.index = number_at(bytes, 17, 8);
  link.window = static_cast<std::uint32_t>(number_at(bytes, 25, 4));
  link.size_bytes = static_cast<std::int64_t>(number_at(bytes, 29, 8));
  return link;
}

}  // namespace mobula::internal
