#include "cli/commands/token_flags.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <map>

namespace mobula::internal::cli {

void add_token_commands(CLI::App& app, TokenFlags& flags,
                        const std::function<void(CLI::App&)>& add_common) {
  CLI::App& token = *app.add_subcommand(
      "token", "Create, list, and revoke tokens for machines, programs, and readers");
  token.require_subcommand(1);
  CLI::App& create = *token.add_subcommand("create", "Create a token and show it once");
  add_common(create);
  create
      .add_option("--role", flags.role,
                  "agent: admits one machine, once; driver: runs programs and jobs; observer: "
                  "reads; metrics: scrapes")
      ->required()
      ->check(CLI::IsMember({"agent", "driver", "observer", "metrics"}));
  create.add_option("--name", flags.name, "Name of the token (default: generated)");
  create.add_option("--expires", flags.expires,
                    "Lifetime, such as 90s, 30m, 12h, or 7d (default: unlimited)");
  create.add_option("--file", flags.file,
                    "Write the token to this file (mode 0600) instead of stdout");
  CLI::App& list = *token.add_subcommand("list", "List tokens");
  add_common(list);
  CLI::App& revoke = *token.add_subcommand("revoke", "Revoke a token immediately");
  add_common(revoke);
  revoke.add_option("token", flags.subject, "Id, a unique prefix of at least 4 digits, or name")
      ->required();
}

Result<std::int64_t> parse_life(const std::string& text) {
  static const std::map<std::string, std::int64_t> units{
      {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
  constexpr std::int64_t most_days = 36'500;
  std::int64_t count = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, count);
  const auto unit = units.find(std::string(read.ptr, end));
  const bool fits =
      unit != units.end() && count > 0 && count <= most_days * 86'400'000 / unit->second;
  if (read.ec != std::errc() || !fits) {
    return failure(
        ErrorCode::invalid_argument,
        "'" + text + "' is not a duration such as 90s, 30m, 12h, or 7d, of at most 100 years");
  }
  return count * unit->second;
}

Result<std::string> http_address(const std::string& text) {
  if (text.empty() || text == "off") return std::string();
  if (std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return "127.0.0.1:" + text;
  }
  if (text.find(':') == std::string::npos) {
    return failure(ErrorCode::invalid_argument,
                   "'" + text + "' is neither off, nor a port, nor HOST:PORT");
  }
  return text;
}

}  // namespace mobula::internal::cli
