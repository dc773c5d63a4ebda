#include "base/id.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace mobula::internal {

std::string hex_of(Hash128 bits) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[static_cast<std::size_t>(15 - i)] = digits[(bits.high >> (4 * i)) & 15];
    text[static_cast<std::size_t>(31 - i)] = digits[(bits.low >> (4 * i)) & 15];
  }
  return text;
}

std::optional<Hash128> bits_from_hex(std::string_view hex) {
  if (hex.size() != 32) return std::nullopt;
  Hash128 bits;
  for (std::size_t i = 0; i < 32; ++i) {
    const char c = hex[i];
    std::uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<std::uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<std::uint64_t>(c - 'a' + 10);
    } else {
      return std::nullopt;
    }
    auto& half = i < 16 ? bits.high : bits.low;
    half = (half << 4) | digit;
  }
  return bits;
}

Hash128 random_bits() {
  std::array<std::uint64_t, 2> words{};
  std::size_t filled = 0;
  while (filled < sizeof words) {
    const ssize_t got =
        ::getrandom(reinterpret_cast<char*>(words.data()) + filled, sizeof words - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    MOBULA_CHECK(got > 0, "getrandom failed: no random ids can be made");
    filled += static_cast<std::size_t>(got);
  }
  return {words[0], words[1]};
}

Hash128 derive_bits(Hash128 parent, std::string_view kind, std::uint64_t index) {
  std::array<std::byte, 64> few;  // large enough for most kinds, which are short words
  std::vector<std::byte> many;
  const std::size_t size = kind.size() + sizeof index;
  if (size > few.size()) many.resize(size);
  std::byte* const bytes = many.empty() ? few.data() : many.data();
  std::memcpy(bytes, kind.data(), kind.size());
  for (std::size_t i = 0; i < sizeof index; ++i) {
    bytes[kind.size() + i] = static_cast<std::byte>(index >> (8 * i));
  }
  return siphash128(parent, {bytes, size});
}

}  // namespace mobula::internal
