#include "transport/bulk/bulk_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace mobula::internal {
namespace {

// "MOBULA", a zero byte, and the version.
constexpr std::array<std::byte, 8> magic{std::byte{'M'}, std::byte{'O'}, std::byte{'B'},
                                         std::byte{'U'}, std::byte{'L'}, std::byte{'A'},
                                         std::byte{0},   std::byte{3}};

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
    return failure(ErrorCode::corrupt, "decode bulk greeting: unknown kind of sealing");
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

namespace {

// Two words at a time: compilers keep them in a vector register.
using Pair = std::uint64_t __attribute__((vector_size(16)));

Pair load(const std::byte* from) {
  Pair words;
  std::memcpy(&words, from, sizeof words);
  return words;
}

// For each word, the product of its lower and upper halves.
Pair product_of_halves(Pair words) {
#if defined(__SSE2__)
  const auto whole = reinterpret_cast<__m128i>(words);
  return reinterpret_cast<Pair>(_mm_mul_epu32(whole, _mm_srli_epi64(whole, 32)));
#else
  return (words & 0xffffffffU) * (words >> 32);
#endif
}

constexpr std::uint64_t golden_step = 0x9e3779b97f4a7c15ULL;
constexpr std::size_t checksum_stride = 64;

struct ChecksumLanes {
  std::array<Pair, 4> sums{Pair{1, 2}, Pair{3, 4}, Pair{5, 6}, Pair{7, 8}};
  std::array<Pair, 4> keys{Pair{0x9fb21c651e98df25ULL, 0x3c79ac492ba7b653ULL},
                           Pair{0x1c69b3f74ac4ae35ULL, 0xd6e8feb86659fd93ULL},
                           Pair{0xa0761d6478bd642fULL, 0xe7037ed1a0b428dbULL},
                           Pair{0x8ebc6af09c88c6e3ULL, 0x589965cc75374cc3ULL}};

  // Each word is added to one sum and its product to another one, so a single change cannot cancel
  // itself. The keys advance with each stride, so exchanged strides change the sum.
  void fold(const std::byte* from, std::size_t strides) {
    auto [a, b, c, d] = sums;
    auto [k, l, m, n] = keys;
    for (; strides > 0; --strides, from += checksum_stride) {
      const Pair first = load(from), second = load(from + 16), third = load(from + 32),
                 fourth = load(from + 48);
      a += product_of_halves(first ^ k) + fourth;
      b += product_of_halves(second ^ l) + first;
      c += product_of_halves(third ^ m) + second;
      d += product_of_halves(fourth ^ n) + third;
      k += golden_step;
      l += golden_step;
      m += golden_step;
      n += golden_step;
    }
    sums = {a, b, c, d};
    keys = {k, l, m, n};
  }
};

}  // namespace

// Header and length are included last.
std::uint64_t bulk_checksum(std::span<const std::byte> header, std::span<const std::byte> payload) {
  ChecksumLanes lanes;
  const std::size_t whole = payload.size() / checksum_stride * checksum_stride;
  lanes.fold(payload.data(), whole / checksum_stride);
  std::array<std::byte, 2 * checksum_stride> rest{};
  if (whole < payload.size())
    std::memcpy(rest.data(), payload.data() + whole, payload.size() - whole);
  std::memcpy(rest.data() + checksum_stride, header.data(),
              std::min(header.size(), checksum_stride));
  lanes.fold(rest.data(), 2);
  std::uint64_t sum = payload.size();
  for (const Pair& pair : lanes.sums) {
    for (const std::size_t i : {0U, 1U}) {
      sum = (std::rotl(sum, 23) ^ pair[i]) * 0x9fb21c651e98df25ULL;
      sum ^= sum >> 29;
    }
  }
  return sum;
}

BulkKeys BulkKeys::derive(const SealKey& secret, const SealSalt& client, const SealSalt& server) {
  std::vector<std::byte> salt(client.begin(), client.end());
  salt.insert(salt.end(), server.begin(), server.end());
  return {derive_key(secret, salt, "mobula bulk 3 from client"),
          derive_key(secret, salt, "mobula bulk 3 from server")};
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
