#include "protocol/tickets/token.h"

#include <sodium.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <vector>

#include "protocol/codec/codec.h"

namespace mobula::internal {
namespace {

constexpr std::size_t key_size = 40;      // characters of a CURVE key in Z85
constexpr std::size_t signing_size = 64;  // characters of a signing key in hex
constexpr std::size_t checksum_size = 4;
constexpr int base64 = sodium_base64_VARIANT_URLSAFE_NO_PADDING;
constexpr DecodeLimits token_limits{.max_bytes = max_token_bytes, .max_elements = 64};

using Checksum = std::array<unsigned char, crypto_generichash_BYTES_MIN>;

// Detects errors in copying. Permissions depend on the key alone.
Checksum checksum_of(const unsigned char* bytes, std::size_t size) {
  MOBULA_CHECK(sodium_init() >= 0, "libsodium cannot be initialized");
  Checksum sum{};
  crypto_generichash(sum.data(), sum.size(), bytes, size, nullptr, 0);
  return sum;
}

Failure no_token(const std::string& why) {
  return failure(
      ErrorCode::invalid_argument,
      "the token is refused: " + why + "; copy it whole, as `mobula token create` prints it");
}

bool is_hex(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// Z85 has neither spaces nor control characters.
bool is_key(const std::string& text) {
  return text.size() == key_size && std::all_of(text.begin(), text.end(), [](char c) {
           return std::isgraph(static_cast<unsigned char>(c)) != 0;
         });
}

}  // namespace

std::string to_text(const Token& token) {
  const Bytes encoded = encode(token);
  std::vector<unsigned char> bytes(encoded.size());
  std::transform(encoded.begin(), encoded.end(), bytes.begin(),
                 [](std::byte each) { return static_cast<unsigned char>(each); });
  const auto sum = checksum_of(bytes.data(), bytes.size());
  bytes.insert(bytes.end(), sum.begin(), sum.begin() + checksum_size);
  std::string text(sodium_base64_encoded_len(bytes.size(), base64), '\0');
  sodium_bin2base64(text.data(), text.size(), bytes.data(), bytes.size(), base64);
  text.resize(text.find('\0'));
  sodium_memzero(bytes.data(), bytes.size());
  return std::string(token_prefix) + text;
}

Result<Token> parse_token(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.remove_suffix(1);
  if (!text.starts_with(token_prefix)) {
    return no_token("it does not begin with '" + std::string(token_prefix) + "'");
  }
  if (text.size() > max_token_bytes) return no_token("it is too long");
  text.remove_prefix(token_prefix.size());
  std::vector<unsigned char> bytes(text.size());
  std::size_t size = 0;
  const char* end = nullptr;
  const bool decoded = sodium_base642bin(bytes.data(), bytes.size(), text.data(), text.size(),
                                         nullptr, &size, &end, base64) == 0;
  if (!decoded || end != text.data() + text.size()) {
    return no_token("it has characters that no token has, or was cut");
  }
  if (size <= checksum_size) return no_token("it was cut");
  size -= checksum_size;
  const auto sum = checksum_of(bytes.data(), size);
  if (!std::equal(sum.begin(), sum.begin() + checksum_size, bytes.data() + size)) {
    return no_token("it was cut or altered");
  }
  auto token = decode<Token>(std::as_bytes(std::span(bytes.data(), size)), token_limits);
  sodium_memzero(bytes.data(), bytes.size());
  if (!token) return no_token("it is not a token of this version");
  if (!is_key(token->secret_key) || !is_key(token->public_key) || !is_key(token->head_curve_key) ||
      token->head_signing_key.size() != signing_size || !is_hex(token->head_signing_key)) {
    return no_token("a key in it is invalid");
  }
  // The cluster name becomes the name of a directory.
  const std::string& name = token->cluster;
  const bool printable = std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == '/' || c == 0x7f;
  });
  if (name.empty() || name == "." || name == ".." || name.size() > 256 || !printable) {
    return no_token("its cluster's name cannot be the name of a directory");
  }
  return token;
}

Result<Token> token_of(const std::string& given) {
  if (!given.starts_with('@')) return parse_token(given);
  const std::string path = given.substr(1);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    return errno_failure("read the token file " + path, errno);
  if ((status.st_mode & 077) != 0) {
    return failure(ErrorCode::permission_denied,
                   "the token file " + path + " can be read by others; run: chmod 600 " + path);
  }
  const auto text = read_file(path);
  if (!text) return text.error();
  auto token = parse_token(*text);
  if (!token) return failure(token.error().code, path + ": " + token.error().text);
  return token;
}

std::string token_from_environment() {
  if (const char* text = std::getenv("MOBULA_TOKEN"); text != nullptr && *text != '\0') return text;
  if (const char* path = std::getenv("MOBULA_TOKEN_FILE"); path != nullptr && *path != '\0')
    return "@" + std::string(path);
  return {};
}

const char* token_variable() {
  const char* text = std::getenv("MOBULA_TOKEN");
  return text != nullptr && *text != '\0' ? "MOBULA_TOKEN" : "MOBULA_TOKEN_FILE";
}

KeyFile key_file_of(const Token& token) {
  return {.cluster = token.cluster,
          .role = token.role,
          .head_curve_key = token.head_curve_key,
          .head_signing_key = token.head_signing_key,
          .public_key = token.public_key,
          .secret_key = token.secret_key};
}

}  // namespace mobula::internal
