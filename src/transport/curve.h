// Key pairs of CURVE, the encryption of ZeroMQ links (https://rfc.zeromq.org/spec/26), as Z85 text,
// and the files that keep them. Value type; any thread. Keys are never printed: texts of failures
// name the file, not what is in it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace mobula::internal {

inline constexpr std::size_t curve_key_size = 40;  // characters of a Z85 key

// Whether this libzmq can encrypt. Without it nothing may leave loopback.
bool curve_available();

// Whether `key` is 40 characters of Z85.
bool is_curve_key(std::string_view key);

// The public half that belongs to a secret key; computed in constant time. invalid_argument for what
// is no key.
Result<std::string> public_key_of(const std::string& secret_key);

struct CurveKeys {
  std::string public_key;
  std::string secret_key;

  // Fails with unavailable where libzmq was built without CURVE.
  static Result<CurveKeys> generate();
  // Reads a key file. permission_denied when it is another user's or grants anything to others;
  // corrupt when it holds no key pair or its halves do not belong together.
  static Result<CurveKeys> load(const std::string& path);
  // Writes a key file of mode 0600, whole or not at all. already_exists where there is one.
  Result<void> save(const std::string& path) const;
};

}  // namespace mobula::internal
