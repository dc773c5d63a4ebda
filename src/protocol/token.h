// Tokens: what somebody is given to come into a cluster with, as one line of text. A token is a CURVE
// key pair of its own, of which the token holds the secret key and the head keeps the public one
// alone; beside it stands what its holder has to know to reach the head and to know that it is the
// head. The same text is a driver's or a tool's key, the bearer token of an HTTP request, and, of role
// agent, the ticket by which one machine joins once.
//
// Values; any thread. Texts of failures never contain the token.
#pragma once

#include <string>
#include <string_view>

#include "base/fields.h"
#include "base/result.h"
#include "protocol/cluster_files.h"

namespace mobula::internal {

// Append only.
struct Token {
  std::string cluster{};
  std::string address{};           // NAME:PORT of the head
  std::string head_curve_key{};    // public, Z85
  std::string head_signing_key{};  // public, 64 hex digits
  std::string role{};              // "agent", "driver", "observer"; what the head knows counts
  std::string public_key{};        // CURVE pair, Z85
  std::string secret_key{};
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("cluster", &Token::cluster), field("address", &Token::address),
                 field("head_curve_key", &Token::head_curve_key),
                 field("head_signing_key", &Token::head_signing_key), field("role", &Token::role),
                 field("public_key", &Token::public_key),
                 field("secret_key", &Token::secret_key));
  }
  friend bool operator==(const Token&, const Token&) = default;
};

inline constexpr std::string_view token_prefix = "mobula-1-";
inline constexpr std::size_t max_token_bytes = 2048;

// "mobula-1-" and letters, digits, '-' and '_', with a checksum against cut ones.
std::string to_text(const Token& token);
// invalid_argument says what is wrong: no token, cut, altered.
Result<Token> parse_token(std::string_view text);

// What users give: the text itself, or @FILE. permission_denied where others can read the file.
Result<Token> token_of(const std::string& given);

// MOBULA_TOKEN, else @ and MOBULA_TOKEN_FILE; empty where neither is set.
std::string token_from_environment();
// The variable that it is taken from.
const char* token_variable();

// What a token's holder connects with.
KeyFile key_file_of(const Token& token);

}  // namespace mobula::internal
