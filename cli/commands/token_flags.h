// Flags of a token, and the grammar of the commands about tokens.
// Thread: main, at start.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace CLI {
class App;
}

namespace mobula::internal::cli {

struct TokenFlags {
  std::string action{};  // create, list, or revoke
  std::string role{};
  std::string name{};
  std::string expires{};  // "12h"; empty: unlimited
  std::string file{};     // file to write; empty: print
  std::string subject{};  // `revoke`: an id, a prefix, or a name
};

// `add_common` adds the options of commands that query the head.
void add_token_commands(CLI::App& app, TokenFlags& flags,
                        const std::function<void(CLI::App&)>& add_common);

// Returns milliseconds (> 0) for "90s", "30m", "12h", or "7d"; otherwise invalid_argument.
Result<std::int64_t> parse_life(const std::string& text);

// Parses --http: empty for "off" and ""; "8080" is a port of this machine.
Result<std::string> http_address(const std::string& text);

}  // namespace mobula::internal::cli
