#include "transport/bulk/seal.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <vector>

namespace mobula::internal {
namespace {

constexpr std::size_t nonce_size = 12;

const unsigned char* in(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* out(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

SealKey hmac(std::span<const std::byte> key, std::span<const std::byte> message) {
  SealKey mac{};
  unsigned size = 0;
  const bool made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), in(message),
                         message.size(), out(mac), &size) != nullptr;
  MOBULA_CHECK(made && size == mac.size(), "HMAC-SHA256 of OpenSSL");
  return mac;
}

}  // namespace

std::array<std::byte, 32> random_secret() {
  std::array<std::byte, 32> bytes{};
  ssize_t count = -1;
  do {
    count = ::getrandom(bytes.data(), bytes.size(), 0);
  } while (count < 0 && errno == EINTR);
  MOBULA_CHECK(count == static_cast<ssize_t>(bytes.size()), "random bytes of the system");
  return bytes;
}

SealKey derive_key(std::span<const std::byte> secret, std::span<const std::byte> salt,
                   std::string_view label) {
  const SealKey extracted = hmac(salt, secret);
  std::vector<std::byte> expanded;
  for (const char c : label) expanded.push_back(static_cast<std::byte>(c));
  expanded.push_back(std::byte{1});
  return hmac(extracted, expanded);
}

SealContext::SealContext(const SealKey& key, bool seals)
    : context_(EVP_CIPHER_CTX_new()), seals_(seals) {
  MOBULA_CHECK(context_ != nullptr && EVP_CipherInit_ex(context_, EVP_aes_256_gcm(), nullptr,
                                                        in(key), nullptr, seals ? 1 : 0) == 1,
               "AES-256-GCM of OpenSSL");
}

SealContext::~SealContext() { EVP_CIPHER_CTX_free(context_); }

void SealContext::begin(std::span<const std::byte> open_part) {
  MOBULA_CHECK(counter_ < std::numeric_limits<std::uint64_t>::max(), "frames under one key");
  std::array<std::byte, nonce_size> nonce{};
  for (std::size_t i = 0; i < 8; ++i) {
    nonce[nonce_size - 1 - i] = static_cast<std::byte>(counter_ >> (8 * i));
  }
  ++counter_;
  int size = 0;
  const bool begun =
      EVP_CipherInit_ex(context_, nullptr, nullptr, nullptr, in(nonce), seals_ ? 1 : 0) == 1 &&
      EVP_CipherUpdate(context_, nullptr, &size, in(open_part),
                       static_cast<int>(open_part.size())) == 1;
  MOBULA_CHECK(begun, "AES-256-GCM of OpenSSL");
}

void Sealer::seal(std::span<const std::byte> open_part, std::span<const std::byte> plain,
                  std::span<std::byte> sealed) {
  MOBULA_CHECK(sealed.size() == plain.size() + seal_tag_size, "space for a sealed frame");
  begin(open_part);
  int size = 0;
  int rest = 0;
  // OpenSSL rejects an empty update with a null pointer.
  const bool done =
      (plain.empty() || EVP_EncryptUpdate(context_, out(sealed), &size, in(plain),
                                          static_cast<int>(plain.size())) == 1) &&
      EVP_EncryptFinal_ex(context_, out(sealed) + size, &rest) == 1 &&
      EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_GCM_GET_TAG, static_cast<int>(seal_tag_size),
                          out(sealed) + plain.size()) == 1;
  MOBULA_CHECK(done, "AES-256-GCM of OpenSSL");
}

Result<void> Opener::open(std::span<const std::byte> open_part, std::span<const std::byte> sealed,
                          std::span<std::byte> plain) {
  MOBULA_CHECK(sealed.size() == plain.size() + seal_tag_size, "space for an opened frame");
  begin(open_part);
  std::array<std::byte, seal_tag_size> tag{};
  std::copy_n(sealed.end() - static_cast<std::ptrdiff_t>(tag.size()), tag.size(), tag.begin());
  int size = 0;
  int rest = 0;
  std::array<unsigned char, 16> none{};
  const bool opened = (plain.empty() || EVP_DecryptUpdate(context_, out(plain), &size, in(sealed),
                                                          static_cast<int>(plain.size())) == 1) &&
                      EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_GCM_SET_TAG,
                                          static_cast<int>(tag.size()), out(tag)) == 1 &&
                      EVP_DecryptFinal_ex(context_, none.data(), &rest) == 1;
  if (opened) return {};
  return failure(ErrorCode::corrupt,
                 "a sealed frame does not open: it was changed on its way, or the keys differ");
}

}  // namespace mobula::internal
