// What the user says of a token, and the grammar of the commands about them. Values; for the main
// thread at start.
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
  std::string action{};  // create, list, revoke
  std::string role{};
  std::string name{};
  std::string expires{};  // "12h"; empty: never
  std::string file{};     // where it is written; empty: printed
  std::string subject{};  // of revoke: an id, the beginning of one, or a name
};

// `add_common` gives each of the commands the options that commands have which ask the head.
void add_token_commands(CLI::App& app, TokenFlags& flags, const std::function<void(CLI::App&)>& add_common);

// "90s", "30m", "12h", "7d": milliseconds, above 0. invalid_argument otherwise.
Result<std::int64_t> parse_life(const std::string& text);

// Of --http: "off" and "" are none, "8080" is a port of this machine.
Result<std::string> http_address(const std::string& text);

}  // namespace mobula::internal::cli
