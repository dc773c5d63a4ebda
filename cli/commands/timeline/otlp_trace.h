// Spans of calls as OTLP traces in JSON (OpenTelemetry protocol 1.x, ExportTraceServiceRequest): a
// resource for each process, one span for each run of a call. The span id is the low 8 bytes of the
// id of the task, and the parent is the task that submitted it. The trace id is the id of the job,
// or that of the driver's TRACEPARENT, whose span is then the parent of the driver's calls. All ids
// are hexadecimal, as OTLP requires.
// Thread: any; pure. Not: transfers.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/messages/facts/span_facts.h"

namespace mobula::internal::cli {

// Spans that an earlier export sent, by process and task.
using SentSpans = std::set<std::pair<ProcessId, TaskId>>;

struct OtlpBatch {
  std::string json;
  std::size_t spans = 0;
};

// Batches of at most `max_spans` spans that are not in `sent`, which is replaced by all present
// spans. `timeline` is the head's document about the processes.
std::vector<OtlpBatch> otlp_batches(const nlohmann::ordered_json& timeline,
                                    const std::vector<ProcessSpans>& spans, std::size_t max_spans,
                                    SentSpans& sent);

}  // namespace mobula::internal::cli
