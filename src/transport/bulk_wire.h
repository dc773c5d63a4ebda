// What goes over a bulk connection. The client begins with a hello of 72 bytes: magic and version
// (8), the token that names its right (32), a random salt (32). The server answers with 48: magic
// and version (8), 1 or 0 for sealed or plain (1), zeros (7), its salt (32). Then come frames: a
// header of 8 bytes (payload length, little-endian; type; three zeros), and the payload. On sealed
// connections payloads are sealed with the header as open part; on plain ones a checksum of 8 bytes
// over header and payload follows. Lengths include tag and checksum. Values; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/seal.h"

namespace mobula::internal {

using BulkToken = std::array<std::byte, 32>;

inline constexpr std::size_t bulk_chunk_bytes = 1u << 20;     // of body in one frame, at most
inline constexpr std::size_t bulk_frame_bytes = 256u << 10;   // and as it is sent: fits the caches
inline constexpr std::size_t bulk_checksum_size = 8;
inline constexpr std::size_t bulk_message_bytes = 64u << 10;  // of a request or header, at most

enum class BulkFrameType : std::uint8_t {
  request = 1,   // client: exchange (8), request bytes
  response = 2,  // server: exchange (8), length of the body (8), header bytes
  data = 3,      // server: a chunk of the body of the last response
  cancel = 4,    // client: exchange (8)
  failed = 5,    // server: exchange (8), error code (1), text; instead of a response or its rest
};

struct BulkHello {
  static constexpr std::size_t size = 72;
  BulkToken token{};
  SealSalt salt{};

  std::array<std::byte, size> encode() const;
  // corrupt for what no client of this version sends.
  static Result<BulkHello> decode(std::span<const std::byte, size> bytes);
};

struct BulkWelcome {
  static constexpr std::size_t size = 48;
  bool sealed = false;
  SealSalt salt{};

  std::array<std::byte, size> encode() const;
  static Result<BulkWelcome> decode(std::span<const std::byte, size> bytes);
};

struct BulkFrameHeader {
  static constexpr std::size_t size = 8;
  std::uint32_t length = 0;
  BulkFrameType type{};

  std::array<std::byte, size> encode() const;
  // corrupt for an unknown type.
  static Result<BulkFrameHeader> decode(std::span<const std::byte, size> bytes);
};

// Of a frame that is not sealed: against faults of machines, not against people.
std::uint64_t bulk_checksum(std::span<const std::byte> header, std::span<const std::byte> payload);

// The keys of both directions of one connection.
struct BulkKeys {
  SealKey from_client;
  SealKey from_server;
  static BulkKeys derive(const SealKey& secret, const SealSalt& client, const SealSalt& server);
};

void put_number(std::vector<std::byte>& to, std::uint64_t number);
// Takes a number off the front; nothing if there are too few bytes.
std::optional<std::uint64_t> take_number(std::span<const std::byte>& from);

}  // namespace mobula::internal
