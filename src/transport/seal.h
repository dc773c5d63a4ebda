// AES-256-GCM (NIST SP 800-38D) for streams of frames: one direction of one connection has a key of
// its own, derived from the secret both ends share and the random salts of this connection, and a
// counter as nonce; so no key and nonce ever meet twice, and a frame that was changed, repeated,
// dropped or reordered does not open. For one thread. Who shares the secret is not its concern.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"

struct evp_cipher_ctx_st;

namespace mobula::internal {

using SealKey = std::array<std::byte, 32>;
using SealSalt = std::array<std::byte, 32>;
inline constexpr std::size_t seal_tag_size = 16;  // what sealing adds to a frame

// 32 bytes from the system's random source.
std::array<std::byte, 32> random_secret();

// HKDF-SHA256 (RFC 5869), the first block: for `label` from `secret`, with both salts.
SealKey derive_key(std::span<const std::byte> secret, std::span<const std::byte> salt,
                   std::string_view label);

// The context of OpenSSL, freed with its owner.
class SealContext {
 public:
  SealContext(const SealKey& key, bool seals);
  ~SealContext();
  SealContext(const SealContext&) = delete;
  SealContext& operator=(const SealContext&) = delete;

 protected:
  // Starts the next frame with its nonce and the bytes that are authenticated but not hidden.
  void begin(std::span<const std::byte> open_part);
  evp_cipher_ctx_st* const context_;

 private:
  const bool seals_;
  std::uint64_t counter_ = 0;
};

class Sealer : public SealContext {
 public:
  explicit Sealer(const SealKey& key) : SealContext(key, true) {}
  // Writes sealed `plain` and its tag to `sealed`, which is longer by seal_tag_size.
  void seal(std::span<const std::byte> open_part, std::span<const std::byte> plain,
            std::span<std::byte> sealed);
};

class Opener : public SealContext {
 public:
  explicit Opener(const SealKey& key) : SealContext(key, false) {}
  // Writes what is in `sealed` to `plain`, shorter by seal_tag_size. corrupt when it is not the
  // next frame of the Sealer with this key: what was written is then worthless, as is the Opener.
  Result<void> open(std::span<const std::byte> open_part, std::span<const std::byte> sealed,
                    std::span<std::byte> plain);
};

}  // namespace mobula::internal
