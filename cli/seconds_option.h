// Options whose value is a time: "90", "90s", "1m", "2h". The program gets seconds.
// Thread: main.
#pragma once

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <string>

#include "base/text/amount_text.h"

namespace mobula::internal::cli {

// Accepts times from `low` to `high` seconds.
inline CLI::Option* takes_seconds(CLI::Option* option, double low, double high) {
  const auto read = [low, high](std::string& text) -> std::string {
    const auto seconds = parse_seconds(text);
    if (!seconds) return seconds.error().text;
    if (*seconds < low || *seconds > high)
      return fmt::format("'{}' is not from {} to {} seconds", text, low, high);
    text = fmt::format("{}", *seconds);
    return {};
  };
  return option->transform(CLI::Validator(read, "", "seconds"));
}

}  // namespace mobula::internal::cli
