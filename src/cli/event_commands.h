// `mobula events` and `mobula describe`. Main thread.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "cli/command_line.h"

namespace mobula::internal::cli {

// Each prints the answer, or why there is none, and returns the exit code.
int show_events(const CommandLine& line);
int describe(const CommandLine& line);

// "90", "90s", "10m", "2h", "1d": so long before `now_ms`; or 2026-11-24T02:33:12Z: a time in UTC.
// invalid_argument otherwise.
Result<std::int64_t> moment_of(const std::string& text, std::int64_t now_ms);

}  // namespace mobula::internal::cli
