// Deterministic hashes, equal on every machine, compiler, and run. SipHash with a public key
// derives ids; FNV-1a hashes traces.
// Thread: any.
// Not: security.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace mobula::internal {

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

// SipHash-2-4 with 128-bit output (Aumasson, Bernstein, 2012).
Hash128 siphash128(Hash128 key, std::span<const std::byte> bytes);

// FNV-1a, 64 bits, chained through `state`.
inline constexpr std::uint64_t fnv_origin = 0xcbf29ce484222325ULL;
constexpr std::uint64_t fnv1a(std::string_view bytes, std::uint64_t state = fnv_origin) {
  for (const char c : bytes) {
    state ^= static_cast<unsigned char>(c);
    state *= 0x100000001b3ULL;
  }
  return state;
}

}  // namespace mobula::internal
