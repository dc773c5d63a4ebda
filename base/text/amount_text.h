// Parses sizes and times as users write them in flags, files, and the console: "512MiB", "10GB",
// "1.5h", "250ms".
// Thread: any. Units: bytes; seconds. Errors: invalid_argument, which shows examples.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace mobula::internal {

// A number and a unit in upper or lower case: none or B; K, M, G, T and KiB, MiB, GiB, TiB (powers
// of 1024); KB, MB, GB, TB (powers of 1000). At most 2^60.
Result<std::int64_t> parse_bytes(const std::string& text);

// A number and a unit: ms, s or none, m, h, d.
Result<double> parse_seconds(const std::string& text);

}  // namespace mobula::internal
