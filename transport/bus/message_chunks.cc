#include "transport/bus/message_chunks.h"

#include <fmt/format.h>

#include <algorithm>

namespace mobula::internal {
namespace {

// "MBC" and the version.
constexpr std::array<std::byte, 4> chunk_magic{std::byte{'M'}, std::byte{'B'}, std::byte{'C'},
                                               std::byte{1}};

template <class Number>
void put_little(std::byte* at, Number number) {
  for (std::size_t i = 0; i < sizeof(number); ++i)
    at[i] = static_cast<std::byte>(number >> (8 * i));
}

template <class Number>
Number take_little(const std::byte* at) {
  Number number = 0;
  for (std::size_t i = 0; i < sizeof(number); ++i) number |= static_cast<Number>(at[i]) << (8 * i);
  return number;
}

}  // namespace

std::array<std::byte, ChunkHeader::size> ChunkHeader::encode() const {
  std::array<std::byte, size> bytes{};
  std::copy(chunk_magic.begin(), chunk_magic.end(), bytes.begin());
  put_little(bytes.data() + 4, static_cast<std::uint32_t>(kind));
  put_little(bytes.data() + 8, message);
  put_little(bytes.data() + 16, message_bytes);
  put_little(bytes.data() + 24, index);
  put_little(bytes.data() + 28, chunk_bytes);
  return bytes;
}

Result<ChunkHeader> ChunkHeader::decode(std::span<const std::byte> bytes) {
  if (bytes.size() < size || bytes.size() > max_size ||
      !std::equal(chunk_magic.begin(), chunk_magic.end(), bytes.begin())) {
    return failure(ErrorCode::corrupt, "decode chunk header: no header of version 1");
  }
  ChunkHeader header;
  const auto kind = take_little<std::uint32_t>(bytes.data() + 4);
  if (kind != static_cast<std::uint32_t>(ChunkKind::announcement) &&
      kind != static_cast<std::uint32_t>(ChunkKind::chunk)) {
    return failure(ErrorCode::corrupt, fmt::format("decode chunk header: unknown kind {}", kind));
  }
  header.kind = static_cast<ChunkKind>(kind);
  header.message = take_little<std::uint64_t>(bytes.data() + 8);
  header.message_bytes = take_little<std::uint64_t>(bytes.data() + 16);
  header.index = take_little<std::uint32_t>(bytes.data() + 24);
  header.chunk_bytes = take_little<std::uint32_t>(bytes.data() + 28);
  return header;
}

std::size_t ChunkHeader::payload_bytes() const {
  const std::uint64_t begin = std::uint64_t{index} * chunk_bytes;
  return begin >= message_bytes ? 0 : std::min<std::uint64_t>(message_bytes - begin, chunk_bytes);
}

const ChunkAssembler::Open* ChunkAssembler::find(std::uint64_t connection) const {
  const auto at = open_.find(connection);
  return at == open_.end() ? nullptr : &at->second;
}

Result<void> ChunkAssembler::check(const Open* open, const ChunkHeader& header,
                                   std::size_t payload) const {
  const auto refuse = [&](std::string why) -> Result<void> {
    return failure(ErrorCode::corrupt, fmt::format("accept chunk {} of message {}: {}",
                                                   header.index, header.message, why));
  };
  if (header.kind != ChunkKind::chunk) return refuse("the header announces no chunk");
  if (header.chunk_bytes < ChunkLimits::min_chunk_bytes ||
      header.chunk_bytes > limits_.chunk_bytes) {
    return refuse(fmt::format("chunks have {} to {} bytes, this one {}",
                              ChunkLimits::min_chunk_bytes, limits_.chunk_bytes,
                              header.chunk_bytes));
  }
  if (header.message_bytes <= header.chunk_bytes ||
      header.message_bytes > limits_.max_message_bytes) {
    return refuse(fmt::format("messages in chunks have {} to {} bytes, this one {}",
                              header.chunk_bytes + std::uint64_t{1}, limits_.max_message_bytes,
                              header.message_bytes));
  }
  if (open == nullptr && header.index != 0) return refuse("expected chunk 0");
  if (open != nullptr && !(open->next == header)) {
    return refuse(fmt::format("expected chunk {} of message {} with {} bytes in chunks of {}",
                              open->next.index, open->next.message, open->next.message_bytes,
                              open->next.chunk_bytes));
  }
  if (payload != header.payload_bytes()) {
    return refuse(fmt::format("expected {} bytes, received {}", header.payload_bytes(), payload));
  }
  return {};
}

std::size_t ChunkAssembler::capacity_with(const Open* open, const ChunkHeader& header,
                                          std::size_t payload) {
  if (open == nullptr) return payload;
  const std::size_t needed = open->bytes.size() + payload;
  if (needed <= open->bytes.capacity()) return open->bytes.capacity();
  return std::min<std::size_t>(header.message_bytes, std::max(needed, 2 * open->bytes.capacity()));
}

std::optional<std::uint64_t> ChunkAssembler::excess(std::uint64_t connection,
                                                    const ChunkHeader& header) const {
  const Open* const open = find(connection);
  if (!check(open, header, header.payload_bytes())) return std::nullopt;  // add() refuses it
  const std::size_t before = open == nullptr ? 0 : open->bytes.capacity();
  const std::size_t after = capacity_with(open, header, header.payload_bytes());
  if (open_bytes_ - before + after <= limits_.max_open_bytes) return std::nullopt;
  const auto stalest = std::min_element(
      open_.begin(), open_.end(),
      [](const auto& a, const auto& b) { return a.second.last_chunk < b.second.last_chunk; });
  return stalest == open_.end() ? connection : stalest->first;
}

Result<std::optional<std::vector<std::byte>>> ChunkAssembler::add(
    std::uint64_t connection, const ChunkHeader& header, std::span<const std::byte> payload,
    std::uint64_t tick) {
  if (auto good = check(find(connection), header, payload.size()); !good) return good.error();
  Open& open = open_[connection];
  const std::size_t before = open.bytes.capacity();
  open.bytes.reserve(capacity_with(before == 0 ? nullptr : &open, header, payload.size()));
  open.bytes.insert(open.bytes.end(), payload.begin(), payload.end());
  open_bytes_ += open.bytes.capacity() - before;
  if (open.bytes.size() == header.message_bytes) {
    std::optional<std::vector<std::byte>> whole(std::move(open.bytes));
    open_bytes_ -= whole->capacity();
    open_.erase(connection);
    return whole;
  }
  open.next = header;
  ++open.next.index;
  open.last_tick = tick;
  open.last_chunk = ++chunks_;
  return std::optional<std::vector<std::byte>>();
}

void ChunkAssembler::drop(std::uint64_t connection) {
  const auto at = open_.find(connection);
  if (at == open_.end()) return;
  open_bytes_ -= at->second.bytes.capacity();
  open_.erase(at);
}

std::vector<std::uint64_t> ChunkAssembler::stalled(std::uint64_t tick) const {
  std::vector<std::uint64_t> found;
  for (const auto& [connection, open] : open_) {
    if (tick - open.last_tick > limits_.stall_ticks) found.push_back(connection);
  }
  return found;
}

}  // namespace mobula::internal
