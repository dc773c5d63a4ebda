// Wire format of a bulk connection. Client hello, 72 bytes: magic and version (8), token (32),
// random salt (32). Server hello, 48 bytes: magic and version (8), 1 if sealed or 0 if plain (1),
// zeros (7), salt (32). Frames follow: an 8-byte header (payload length, little-endian; type; three
// zeros) and the payload. A sealed payload authenticates the header too. After a plain payload
// follows an 8-byte checksum of header and payload. The length includes the tag or the checksum.
// Thread: any (values).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/bulk/seal.h"

namespace mobula::internal {

using BulkToken = std::array<std::byte, 32>;

inline constexpr std::size_t bulk_chunk_bytes = 1u << 20;    // maximum of a body per received frame
inline constexpr std::size_t bulk_frame_bytes = 256u << 10;  // body per sent frame: fits the caches
inline constexpr std::size_t bulk_checksum_size = 8;
inline constexpr std::size_t bulk_message_bytes = 64u << 10;  // maximum of a request or header

enum class BulkFrameType : std::uint8_t {
  request = 1,   // client: exchange (8), request bytes
  response = 2,  // server: exchange (8), length of the body (8), header bytes
  data = 3,      // server: a chunk of the body of the last response
  cancel = 4,    // client: exchange (8)
  failed = 5,    // server: exchange (8), error code (1), text; replaces the response or its rest
};

struct BulkHello {
  static constexpr std::size_t size = 72;
  BulkToken token{};
  SealSalt salt{};

  std::array<std::byte, size> encode() const;
  // Errors: corrupt if no client of this version sends these bytes.
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
  // Errors: corrupt for an unknown type.
  static Result<BulkFrameHeader> decode(std::span<const std::byte, size> bytes);
};

// Checksum of a plain frame. It detects faults of machines, not attacks.
std::uint64_t bulk_checksum(std::span<const std::byte> header, std::span<const std::byte> payload);

// Keys of both directions of one connection.
struct BulkKeys {
  SealKey from_client;
  SealKey from_server;
  static BulkKeys derive(const SealKey& secret, const SealSalt& client, const SealSalt& server);
};

void put_number(std::vector<std::byte>& to, std::uint64_t number);
// Removes a number from the front. Returns nullopt if `from` has fewer than 8 bytes.
std::optional<std::uint64_t> take_number(std::span<const std::byte>& from);

}  // namespace mobula::internal
