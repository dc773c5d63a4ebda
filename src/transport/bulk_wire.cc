#include "transport/bulk_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace mobula::internal {
namespace {

// "MOBULA", a zero, and the version.
constexpr std::array<std::byte, 8> magic{std::byte{'M'}, std::byte{'O'}, std::byte{'B'},
                                         std::byte{'U'}, std::byte{'L'}, std::byte{'A'},
                                         std::byte{0},   std::byte{2}};

Result<void> check_magic(std::span<const std::byte> bytes) {
  if (std::equal(magic.begin(), magic.end(), bytes.begin())) return {};
  if (std::equal(magic.begin(), magic.end() - 1, bytes.begin())) {
    return failure(ErrorCode::corrupt,
                   fmt::format("a bulk connection begins with version {}; this program speaks {}",
                               static_cast<unsigned>(bytes[7]), static_cast<unsigned>(magic[7])));
  }
  return failure(ErrorCode::corrupt, "a connection to a bulk port does not begin as one");
}

}  // namespace

std::array<std::byte, BulkHello::size> BulkHello::encode() const {
  std::array<std::byte, size> bytes{};
  std::copy(magic.begin(), magic.end(), bytes.begin());
  std::copy(token.begin(), token.end(), bytes.begin() + 8);
  std::copy(salt.begin(), salt.end(), bytes.begin() + 40);
  return bytes;
}

Result<BulkHello> BulkHello::decode(std::span<const std::byte, size> bytes) {
  if (auto good = check_magic(bytes); !good) return good.error();
  BulkHello hello;
  std::copy_n(bytes.begin() + 8, hello.token.size(), hello.token.begin());
  std::copy_n(bytes.begin() + 40, hello.salt.size(), hello.salt.begin());
  return hello;
}

std::array<std::byte, BulkWelcome::size> BulkWelcome::encode() const {
  std::array<std::byte, size> bytes{};
  std::copy(magic.begin(), magic.end(), bytes.begin());
  bytes[8] = sealed ? std::byte{1} : std::byte{0};
  std::copy(salt.begin(), salt.end(), bytes.begin() + 16);
  return bytes;
}

Result<BulkWelcome> BulkWelcome::decode(std::span<const std::byte, size> bytes) {
  if (auto good = check_magic(bytes); !good) return good.error();
  if (bytes[8] > std::byte{1}) {
    return failure(ErrorCode::corrupt, "a bulk server neither seals nor does not");
  }
  BulkWelcome welcome;
  welcome.sealed = bytes[8] == std::byte{1};
  std::copy_n(bytes.begin() + 16, welcome.salt.size(), welcome.salt.begin());
  return welcome;
}

std::array<std::byte, BulkFrameHeader::size> BulkFrameHeader::encode() const {
  std::array<std::byte, size> bytes{};
  for (std::size_t i = 0; i < 4; ++i) bytes[i] = static_cast<std::byte>(length >> (8 * i));
  bytes[4] = static_cast<std::byte>(type);
  return bytes;
}

Result<BulkFrameHeader> BulkFrameHeader::decode(std::span<const std::byte, size> bytes) {
  BulkFrameHeader header;
  for (std::size_t i = 0; i < 4; ++i) {
    header.length |= static_cast<std::uint32_t>(bytes[i]) << (8 * i);
  }
  const auto type = static_cast<unsigned>(bytes[4]);
  const bool zeros =
      bytes[5] == std::byte{0} && bytes[6] == std::byte{0} && bytes[7] == std::byte{0};
  if (type < 1 || type > 5 || !zeros) {
    return failure(ErrorCode::corrupt, fmt::format("a bulk frame of the unknown type {}", type));
  }
  header.type = static_cast<BulkFrameType>(type);
  return header;
}

// Eight lanes of words, so that one multiplication need not wait for the other; the lengths and the
// header are folded in at the end.
std::uint64_t bulk_checksum(std::span<const std::byte> header, std::span<const std::byte> payload) {
  constexpr std::uint64_t prime = 0x9fb21c651e98df25ULL;
  constexpr std::size_t lane_count = 8;
  constexpr std::size_t stride = lane_count * sizeof(std::uint64_t);
  std::array<std::uint64_t, lane_count> lanes{1, 2, 3, 4, 5, 6, 7, 8};
  const auto fold = [&](const std::byte* from) {
    std::array<std::uint64_t, lane_count> words;
    std::memcpy(words.data(), from, stride);
    for (std::size_t i = 0; i < lane_count; ++i) {
      lanes[i] = std::rotl(lanes[i] ^ words[i], 31) * prime;
    }
  };
  std::size_t at = 0;
  for (; at + stride <= payload.size(); at += stride) fold(payload.data() + at);
  std::array<std::byte, stride> rest{};
  if (at < payload.size()) std::memcpy(rest.data(), payload.data() + at, payload.size() - at);
  fold(rest.data());
  rest = {};
  std::memcpy(rest.data(), header.data(), std::min(header.size(), stride));
  fold(rest.data());
  std::uint64_t sum = payload.size();
  for (const std::uint64_t lane : lanes) sum = (std::rotl(sum, 23) ^ lane) * prime;
  return sum ^ (sum >> 29);
}

BulkKeys BulkKeys::derive(const SealKey& secret, const SealSalt& client, const SealSalt& server) {
  std::vector<std::byte> salt(client.begin(), client.end());
  salt.insert(salt.end(), server.begin(), server.end());
  return {derive_key(secret, salt, "mobula bulk 2 from client"),
          derive_key(secret, salt, "mobula bulk 2 from server")};
}

void put_number(std::vector<std::byte>& to, std::uint64_t number) {
  for (std::size_t i = 0; i < 8; ++i) to.push_back(static_cast<std::byte>(number >> (8 * i)));
}

std::optional<std::uint64_t> take_number(std::span<const std::byte>& from) {
  if (from.size() < 8) return std::nullopt;
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < 8; ++i) number |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  from = from.subspan(8);
  return number;
}

}  // namespace mobula::internal
