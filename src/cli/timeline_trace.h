// Spans of calls and transfers as a trace in Chrome's JSON format, which Perfetto and chrome://tracing
// open (Trace Event Format, "JSON Object Format"). A process row for each node; in it, thread rows for
// each driver and executor: what it ran, what it waits for, what came to it. Flows lead from where a
// call was submitted to where it ran and to where its result came, and on to where its bytes went from node
// to node. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "protocol/span_facts.h"

namespace mobula::internal::cli {

struct TraceCounts {
  std::uint64_t ran = 0;
  std::uint64_t submitted = 0;
  std::uint64_t transfers = 0;
  std::uint64_t flows = 0;
  std::uint64_t forgotten = 0;  // calls and transfers that the processes no longer know
};

struct Trace {
  std::string json;
  TraceCounts counts;
};

// `timeline` is the head's document: who the processes are. Times in the trace are microseconds from the
// earliest, by the clocks of the nodes.
Trace trace_of(const nlohmann::ordered_json& timeline, const std::vector<ProcessSpans>& spans);

}  // namespace mobula::internal::cli
