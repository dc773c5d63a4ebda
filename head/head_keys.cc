#include "head/head_keys.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <optional>

#include "head/head_service.h"

namespace mobula::internal::head {
namespace {

constexpr std::size_t public_size = 32;
constexpr std::size_t secret_size = 64;

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::optional<int> digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return std::nullopt;
}

std::optional<std::string> text_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2) {
    const auto high = digit_of(hex[at]);
    const auto low = digit_of(hex[at + 1]);
    if (!high || !low) return std::nullopt;
    bytes += static_cast<char>(*high * 16 + *low);
  }
  return bytes;
}

Result<CurveKeys> curve_keys_at(const std::string& path) {
  if (exists(path)) return CurveKeys::load(path);
  auto keys = CurveKeys::generate();
  if (!keys) return keys;
  if (auto saved = keys->save(path); !saved) return saved.error();
  return keys;
}

// Format: two lines of hexadecimal digits, the public key and the secret key.
Result<SigningKeys> signing_keys_at(const std::string& path) {
  if (!exists(path)) {
    auto keys = SigningKeys::generate();
    const std::string text =
        hex_of_key(keys.public_key) + "\n" + hex_of_key(keys.secret_key) + "\n";
    if (auto saved = write_file(path, text, 0600); !saved) return saved.error();
    return keys;
  }
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & 077) != 0) {
    return failure(
        ErrorCode::permission_denied,
        fmt::format("the key file {} can be read by others; run: chmod 600 {}", path, path));
  }
  const auto text = read_file(path);
  if (!text) return text.error();
  const auto newline = text->find('\n');
  const auto public_key = text_of_hex(text->substr(0, newline));
  const auto secret_key =
      text_of_hex(newline == std::string::npos ? "" : text->substr(newline + 1));
  if (!public_key || !secret_key || public_key->size() != public_size ||
      secret_key->size() != secret_size) {
    return failure(
        ErrorCode::corrupt,
        fmt::format("the key file {} holds no signing keys; restore it or remove it", path));
  }
  return SigningKeys{*public_key, *secret_key};
}

Result<KeyFile> key_file_at(const std::string& path, KeyFile wanted) {
  if (exists(path)) {
    auto found = load_key_file(path);
    if (!found) return found;
    const bool of_this_head = found->head_curve_key == wanted.head_curve_key &&
                              found->head_signing_key == wanted.head_signing_key &&
                              found->role == wanted.role;
    if (of_this_head) return found;
  }
  const auto pair = CurveKeys::generate();
  if (!pair) return pair.error();
  wanted.public_key = pair->public_key;
  wanted.secret_key = pair->secret_key;
  if (auto saved = save(wanted, path); !saved) return saved.error();
  return wanted;
}

}  // namespace

std::string hex_of_key(const std::string& bytes) {
  std::string hex;
  for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return hex;
}

Result<HeadKeys> HeadKeys::load_or_make(const std::string& directory, const std::string& cluster) {
  HeadKeys keys;
  auto curve = curve_keys_at(directory + "/head/curve.key");
  if (!curve) return curve.error();
  keys.curve = std::move(curve).value();
  auto signing = signing_keys_at(directory + "/head/signing.key");
  if (!signing) return signing.error();
  keys.signing = std::move(signing).value();

  KeyFile file;
  file.cluster = cluster;
  file.head_curve_key = keys.curve.public_key;
  file.head_signing_key = hex_of_key(keys.signing.public_key);
  file.role = to_string(Role::agent);
  auto join = key_file_at(fmt::format("{}/{}.key", directory, cluster), file);
  if (!join) return join.error();
  keys.join = std::move(join).value();
  file.role = to_string(Role::operator_);
  auto operator_key = key_file_at(directory + "/head/operator.key", file);
  if (!operator_key) return operator_key.error();
  keys.operator_key = std::move(operator_key).value();
  file.role = to_string(Role::observer);
  auto observer_key = key_file_at(directory + "/head/observer.key", file);
  if (!observer_key) return observer_key.error();
  keys.observer_key = std::move(observer_key).value();
  return keys;
}

Result<void> HeadKeys::admit(AllowTable& table) const {
  if (auto done = table.allow(join.public_key, user_id_of(Role::agent, join.cluster)); !done) {
    return done;
  }
  for (const auto& [key, role] :
       {std::pair{&operator_key, Role::operator_}, std::pair{&observer_key, Role::observer}}) {
    if (auto done = table.allow(key->public_key, user_id_of(role, key->cluster)); !done)
      return done;
  }
  return {};
}

}  // namespace mobula::internal::head
