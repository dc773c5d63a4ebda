// Spans of calls and transfers as a trace in Chrome's JSON format, for Perfetto and
// chrome://tracing (Trace Event Format, "JSON Object Format"): one process row per node; one thread
// row per driver and executor with its calls, waits, and results. Flows connect the submission of a
// call, its run, its result, and the transfers of its bytes between nodes.
// Thread: any; pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "protocol/messages/facts/span_facts.h"

namespace mobula::internal::cli {

struct TraceCounts {
  std::uint64_t ran = 0;
  std::uint64_t submitted = 0;
  std::uint64_t transfers = 0;
  std::uint64_t flows = 0;
  std::uint64_t forgotten = 0;  // calls and transfers that the processes no longer store
};

struct Trace {
  std::string json;
  TraceCounts counts;
};

// `timeline` is the head's document about the processes. Times in the trace are microseconds from
// the earliest event, by the clocks of the nodes.
Trace trace_of(const nlohmann::ordered_json& timeline, const std::vector<ProcessSpans>& spans);

}  // namespace mobula::internal::cli
