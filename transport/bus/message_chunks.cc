#include "transport/bus/message_chunks.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace mobula::internal {
namespace {

// "MBC" and the version.
constexpr std::array<std::byte, 4> chunk_magic{std::byte{'M'}, std::byte{'B'}, std::byte{'C'},
                                               std::byte{2}};

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
  put_little(bytes.data() + 4, message);
  put_little(bytes.data() + 12, message_bytes);
  put_little(bytes.data() + 20, index);
  put_little(bytes.data() + 24, chunk_bytes);
  return bytes;
}

Result<ChunkHeader> ChunkHeader::decode(std::span<const std::byte> bytes) {
  if (bytes.size() < size || bytes.size() > max_size ||
      !std::equal(chunk_magic.begin(), chunk_magic.end(), bytes.begin())) {
    return failure(ErrorCode::corrupt, "decode chunk header: no header of version 2");
  }
  ChunkHeader header;
  header.message = take_little<std::uint64_t>(bytes.data() + 4);
  header.message_bytes = take_little<std::uint64_t>(bytes.data() + 12);
  header.index = take_little<std::uint32_t>(bytes.data() + 20);
  header.chunk_bytes = take_little<std::uint32_t>(bytes.data() + 24);
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
  if (header.chunk_bytes < ChunkLimits::min_chunk_bytes ||
      header.chunk_bytes > limits_.chunk_bytes) {
    return refuse(fmt::format("chunks have {} to {} bytes, this one {}",
                              ChunkLimits::min_chunk_bytes, limits_.chunk_bytes,
                              header.chunk_bytes));
  }
  if (header.message_bytes <= ChunkLimits::frame_bytes ||
      header.message_bytes > limits_.max_message_bytes) {
    return refuse(fmt::format("messages in chunks have {} to {} bytes, this one {}",
                              ChunkLimits::frame_bytes + 1, limits_.max_message_bytes,
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

std::optional<std::uint64_t> ChunkAssembler::excess(std::uint64_t connection,
                                                    const ChunkHeader& header) const {
  const Open* const open = find(connection);
  if (!check(open, header, header.payload_bytes())) return std::nullopt;  // add() refuses it
  if (open_bytes_ + header.payload_bytes() <= limits_.max_open_bytes) return std::nullopt;
  const auto stalest = std::min_element(
      open_.begin(), open_.end(),
      [](const auto& a, const auto& b) { return a.second.last_chunk < b.second.last_chunk; });
  return stalest == open_.end() ? connection : stalest->first;
}

Result<bool> ChunkAssembler::add(std::uint64_t connection, const ChunkHeader& header,
                                 Frames& frames, std::uint64_t tick) {
  std::size_t payload = 0;
  for (const zmq::message_t& frame : frames) payload += frame.size();
  if (auto good = check(find(connection), header, payload); !good) return good.error();
  Open& open = open_[connection];
  std::move(frames.begin(), frames.end(), std::back_inserter(open.frames));
  frames.clear();
  open.bytes += payload;
  open_bytes_ += payload;
  open.next = header;
  ++open.next.index;
  open.last_tick = tick;
  open.last_chunk = ++chunks_;
  return open.bytes == header.message_bytes;
}

void ChunkAssembler::take(std::uint64_t connection, std::vector<std::byte>& message) {
  const auto at = open_.find(connection);
  MOBULA_CHECK(at != open_.end(), "a complete message in chunks");
  message.clear();
  message.reserve(at->second.bytes);
  for (const zmq::message_t& frame : at->second.frames) {
    const auto* const bytes = frame.data<std::byte>();
    message.insert(message.end(), bytes, bytes + frame.size());
  }
  drop(connection);
}

void ChunkAssembler::drop(std::uint64_t connection) {
  const auto at = open_.find(connection);
  if (at == open_.end()) return;
  open_bytes_ -= at->second.bytes;
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
