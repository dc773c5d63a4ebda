// CURVE key pairs for the encryption of ZeroMQ connections (https://rfc.zeromq.org/spec/26), as Z85
// text, and their key files.
// Thread: any (values). Errors: texts name the file and never contain a key.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace mobula::internal {

inline constexpr std::size_t curve_key_size = 40;  // characters of a Z85 key

// True if this libzmq can encrypt. Without encryption, traffic stays on loopback.
bool curve_available();

// True if `key` is 40 characters of Z85.
bool is_curve_key(std::string_view key);

// Computes the public key of a secret key in constant time. Errors: invalid_argument if
// `secret_key` is no key.
Result<std::string> public_key_of(const std::string& secret_key);

struct CurveKeys {
  std::string public_key;
  std::string secret_key;

  // Errors: unavailable if libzmq was built without CURVE.
  static Result<CurveKeys> generate();
  // Reads a key file. Errors: permission_denied if another user owns it or other users have access;
  // corrupt if it has no key pair or the halves do not match.
  static Result<CurveKeys> load(const std::string& path);
  // Writes a key file of mode 0600 atomically. Errors: already_exists if the file exists.
  Result<void> save(const std::string& path) const;
};

}  // namespace mobula::internal
