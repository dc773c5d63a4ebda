#include "base/hash.h"

#include <bit>
#include <cstddef>
#include <cstring>

namespace mobula::internal {
namespace {

struct SipState {
  std::uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void absorb(std::uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
  std::uint64_t digest() {
    for (int i = 0; i < 4; ++i) round();
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

std::uint64_t whole_word(const std::byte* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return std::endian::native == std::endian::little ? word : __builtin_bswap64(word);
}

// Decodes fewer bytes than a word has.
std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    word |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
  }
  return word;
}

}  // namespace

Hash128 siphash128(Hash128 key, std::span<const std::byte> bytes) {
  SipState s{key.high ^ 0x736f6d6570736575ULL, key.low ^ 0x646f72616e646f6dULL ^ 0xee,
             key.high ^ 0x6c7967656e657261ULL, key.low ^ 0x7465646279746573ULL};
  const std::size_t size = bytes.size();
  std::size_t at = 0;
  for (; at + 8 <= size; at += 8) s.absorb(whole_word(bytes.data() + at));
  s.absorb(little_endian(bytes.subspan(at)) | (static_cast<std::uint64_t>(size & 0xff) << 56));
  s.v2 ^= 0xee;
  const std::uint64_t high = s.digest();
  s.v1 ^= 0xdd;
  const std::uint64_t low = s.digest();
  return {high, low};
}

}  // namespace mobula::internal
