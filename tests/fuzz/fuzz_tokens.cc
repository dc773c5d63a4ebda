// Parsers of tokens and tickets. A parsed credential encodes to text that parses to an equal one.
// An incomplete, expired, or wrongly signed credential is rejected.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "protocol/tickets/ticket.h"
#include "protocol/tickets/token.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mobula::internal;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 3 == 0) {
    // A key that has signed no ticket.
    if (check_ticket(text, std::string(32, 'k'), 1'700'000'000'000, {}).ok()) std::abort();
    return 0;
  }
  const auto token = parse_token(data[0] % 3 == 1 ? text : std::string(token_prefix) + text);
  if (!token) {
    if (token.error().text.empty()) std::abort();
    return 0;
  }
  const auto again = parse_token(to_text(*token));
  if (!again || *again != *token) std::abort();
  if (token->cluster.find('/') != std::string::npos || token->cluster == "..") std::abort();
  return 0;
}
