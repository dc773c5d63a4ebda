// Tokens: credentials for a cluster as one line of text. A token holds the secret key of a CURVE
// pair, of which the head keeps only the public key, and the address and public keys of the head. A
// token serves as the key of a driver or tool and as an HTTP bearer token. With role agent, it lets
// one machine join once.
// Thread: any.
// Errors: never contain the token.
#pragma once

#include <string>
#include <string_view>

#include "base/fields.h"
#include "base/result.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal {

// Append only.
struct Token {
  std::string cluster{};
  std::string address{};           // NAME:PORT of the head
  std::string head_curve_key{};    // public, Z85
  std::string head_signing_key{};  // public, 64 hex digits
  std::string role{};  // "agent", "driver", "observer"; the role that the head stores is decisive
  std::string public_key{};  // CURVE pair, Z85
  std::string secret_key{};
  MOBULA_FIELDS(cluster, address, head_curve_key, head_signing_key, role, public_key, secret_key);
  friend bool operator==(const Token&, const Token&) = default;
};

inline constexpr std::string_view token_prefix = "mobula-1-";
inline constexpr std::size_t max_token_bytes = 2048;

// "mobula-1-", then letters, digits, '-' and '_', with a checksum that detects truncation.
std::string to_text(const Token& token);
// Errors: invalid_argument, which distinguishes other text, a truncated token, and an altered one.
Result<Token> parse_token(std::string_view text);

// Parses user input: the token itself, or @FILE. permission_denied if other users can read the
// file.
Result<Token> token_of(const std::string& given);

// MOBULA_TOKEN, else @ and MOBULA_TOKEN_FILE; empty if neither is set.
std::string token_from_environment();
// The name of the variable that supplies the token.
const char* token_variable();

// Credentials with which the holder of the token connects.
KeyFile key_file_of(const Token& token);

}  // namespace mobula::internal
