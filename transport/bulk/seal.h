// AES-256-GCM (NIST SP 800-38D) for streams of frames. Each direction of a connection has its own
// key, derived from the shared secret and the random salts of the connection, and uses a counter as
// nonce. No pair of key and nonce repeats, and a changed, repeated, dropped, or reordered frame
// fails to open.
// Thread: owner. Not: distribution of the secret.
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
inline constexpr std::size_t seal_tag_size = 16;  // bytes that sealing adds to a frame

// Returns 32 bytes from the random source of the system.
std::array<std::byte, 32> random_secret();

// First block of HKDF-SHA256 (RFC 5869) from `secret`, with both salts, for `label`.
SealKey derive_key(std::span<const std::byte> secret, std::span<const std::byte> salt,
                   std::string_view label);

// Owns a cipher context of OpenSSL.
class SealContext {
 public:
  SealContext(const SealKey& key, bool seals);
  ~SealContext();
  SealContext(const SealContext&) = delete;
  SealContext& operator=(const SealContext&) = delete;

 protected:
  // Starts the next frame with its nonce and the bytes that are authenticated but not encrypted.
  void begin(std::span<const std::byte> open_part);
  evp_cipher_ctx_st* const context_;

 private:
  const bool seals_;
  std::uint64_t counter_ = 0;
};

class Sealer : public SealContext {
 public:
  explicit Sealer(const SealKey& key) : SealContext(key, true) {}
  // Writes the encrypted `plain` and its tag to `sealed`, which is longer by seal_tag_size.
  void seal(std::span<const std::byte> open_part, std::span<const std::byte> plain,
            std::span<std::byte> sealed);
};

class Opener : public SealContext {
 public:
  explicit Opener(const SealKey& key) : SealContext(key, false) {}
  // Decrypts `sealed` into `plain`, which is shorter by seal_tag_size. Errors: corrupt if `sealed`
  // is not the next frame of the Sealer with this key. The output and the Opener are then unusable.
  Result<void> open(std::span<const std::byte> open_part, std::span<const std::byte> sealed,
                    std::span<std::byte> plain);
};

}  // namespace mobula::internal
