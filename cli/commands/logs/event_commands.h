// `mobula events` and `mobula describe`.
// Thread: main.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "cli/command_line.h"

namespace mobula::internal::cli {

// Each prints the answer or the fault and returns the exit code.
int show_events(const CommandLine& line);
int describe(const CommandLine& line);

// Parses an age before `now_ms` ("90", "90s", "10m", "2h", "1d") or a UTC time
// (2026-11-24T02:33:12Z). Otherwise invalid_argument.
Result<std::int64_t> moment_of(const std::string& text, std::int64_t now_ms);

}  // namespace mobula::internal::cli
