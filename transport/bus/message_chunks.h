// Chunks of large bus messages: their headers, and the reassembly per connection. A message above
// the frame limit of its receiver is sent as bus messages, each with a header and the frames of one
// chunk. They are in order, without other messages between them. Therefore a connection has at most
// one incomplete message.
// Header, little-endian: "MBC" and the version (4 bytes), number of the message (8), its size (8),
// index of the chunk (4), size of all chunks but the last (4). Further bytes are skipped.
// Thread: owner (the bus). Units: bytes. Errors: corrupt. Not: sockets, connections.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>
#include <zmq.hpp>

#include "base/result.h"

namespace mobula::internal {

struct ChunkHeader {
  static constexpr std::size_t size = 28;
  static constexpr std::size_t max_size = 256;  // of headers of later releases
  std::uint64_t message = 0;                    // number of the message on its connection, from 1
  std::uint64_t message_bytes = 0;
  std::uint32_t index = 0;
  std::uint32_t chunk_bytes = 0;

  std::array<std::byte, size> encode() const;
  // Errors: corrupt for another magic, version, or length.
  static Result<ChunkHeader> decode(std::span<const std::byte> bytes);

  // Size of this chunk; 0 if `index` is beyond the message.
  std::size_t payload_bytes() const;
  friend bool operator==(const ChunkHeader&, const ChunkHeader&) = default;
};

struct ChunkLimits {
  // Largest frame that a TCP listener accepts. libzmq allocates a frame before the key of its
  // sender is proven. With its buffers, a connection then takes less than 64 KiB (decision 86).
  static constexpr std::size_t frame_bytes = 32u << 10;
  // No peer sends smaller chunks, except the last one of a message: each chunk costs a wake-up.
  static constexpr std::size_t min_chunk_bytes = 64u << 10;
  std::size_t chunk_bytes = 1u << 20;         // largest accepted chunk
  std::size_t max_message_bytes = 16u << 20;  // one message, and so one connection
  std::size_t max_open_bytes = 256u << 20;    // incomplete messages of all connections
  std::uint64_t stall_ticks = 5;              // longest time without the next chunk
};

// Reassembles the messages of all connections of a bus. It keeps the received frames, so its memory
// grows with the received bytes, not with the announced size. A tick is the unit of time of the
// owner.
class ChunkAssembler {
 public:
  using Frames = std::vector<zmq::message_t>;

  explicit ChunkAssembler(const ChunkLimits& limits) : limits_(limits) {}

  // Adds the next chunk of `connection`, and takes its frames. Returns true if the message is
  // complete: the owner then calls take(). Errors: corrupt for a chunk that does not continue the
  // message or exceeds a limit; the owner then closes the connection, and drops it here.
  Result<bool> add(std::uint64_t connection, const ChunkHeader& header, Frames& frames,
                   std::uint64_t tick);
  // Moves the complete message of `connection` to `message`, whose memory it reuses.
  void take(std::uint64_t connection, std::vector<std::byte>& message);
  // Discards the incomplete message of `connection`, if any.
  void drop(std::uint64_t connection);

  // True while a message of `connection` is incomplete: only its next chunk may follow.
  bool is_open(std::uint64_t connection) const { return open_.contains(connection); }
  // Names the connection to close before the chunk of `connection` fits into max_open_bytes, which
  // is the connection that has waited longest for its next chunk. Returns nullopt if it fits.
  std::optional<std::uint64_t> excess(std::uint64_t connection, const ChunkHeader& header) const;
  // Connections that waited longer than stall_ticks for their next chunk.
  std::vector<std::uint64_t> stalled(std::uint64_t tick) const;
  // Memory of all incomplete messages.
  std::size_t open_bytes() const { return open_bytes_; }

 private:
  struct Open {
    ChunkHeader next;  // header of the next chunk
    Frames frames;
    std::size_t bytes = 0;  // in `frames`
    std::uint64_t last_tick = 0;
    std::uint64_t last_chunk = 0;  // among the chunks of all connections
  };

  Result<void> check(const Open* open, const ChunkHeader& header, std::size_t payload) const;
  const Open* find(std::uint64_t connection) const;

  const ChunkLimits limits_;
  std::map<std::uint64_t, Open> open_;
  std::size_t open_bytes_ = 0;
  std::uint64_t chunks_ = 0;
};

}  // namespace mobula::internal
