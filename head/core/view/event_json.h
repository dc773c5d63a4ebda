// JSON of events, selected by the filters of a tool.
// Thread: any. Read-only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace mobula::internal::head {

struct HeadTables;

// `filters` is empty or a JSON object with any of: "severity" (this or a higher one; default INFO),
// "kind" (exact, or a prefix that ends in '*'), "since_ms" (wall clock), "after" and "epoch" (from
// an earlier reply: newer events only), "id" (of a subject, or its prefix), "limit" (the latest
// events, at most this number). `next` and `epoch` of the document are the values for the following
// query. `lost` is the number of events that are no longer available. Errors: invalid_argument for
// a bad filter.
Result<std::string> events_json(const HeadTables& tables, const std::string& filters);

// Returns 2026-11-24T02:33:12.345Z.
std::string utc_text(std::int64_t wall_ms);
// Returns utc_text(), or null for 0, which means that the event has not happened.
nlohmann::ordered_json utc_or_null(std::int64_t wall_ms);

}  // namespace mobula::internal::head
