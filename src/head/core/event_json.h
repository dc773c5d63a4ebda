// Events as JSON, chosen by what a tool asks for. Read only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace mobula::internal::head {

struct Parts;

// `filters`: nothing, or a JSON object with "severity" (that or worse; INFO if missing), "kind" (whole,
// or its beginning with '*' at the end), "since_ms" (wall clock), "after" and "epoch" (of an earlier
// answer: what has come since), "id" (of anything it is about, or the beginning), "limit" (the latest
// so many). The document says in `next` and `epoch` what to ask for later, and in `lost` how many there
// were that nobody can be told. invalid_argument where a filter is wrong.
Result<std::string> events_json(const Parts& parts, const std::string& filters);

// 2026-11-24T02:33:12.345Z
std::string utc_text(std::int64_t wall_ms);
// Likewise; null for 0, which stands for what has not happened.
nlohmann::ordered_json utc_or_null(std::int64_t wall_ms);

}  // namespace mobula::internal::head
