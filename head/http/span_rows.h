// Writes the calls and transfers of a timeline as compact JSON rows for the web page.
// Thread: any. Units: microseconds of the wall clock of the process that reports.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "protocol/messages/facts/span_facts.h"

namespace mobula::internal::head {

// Adds to each item of `timeline.processes` that has an entry in `spans`:
//   names: names of calls
//   ran: [begin, end, index into names, failed, task id] of the latest calls
//   transfers: [begin, end, path, bytes, failed] of the latest transfers
// and to the timeline `now_us`, the latest report, and `left_out`, the number of rows beyond
// the limit. Rows that ended more than a minute before their report are omitted.
void add_span_rows(nlohmann::ordered_json& timeline, const std::vector<ProcessSpans>& spans);

}  // namespace mobula::internal::head
