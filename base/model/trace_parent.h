// The trace context of a process (W3C Trace Context): the span of another program that started it.
// Thread: any.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace mobula::internal {

inline constexpr const char* trace_parent_variable = "TRACEPARENT";
inline constexpr const char* trace_state_variable = "TRACESTATE";

struct TraceParent {
  std::string trace_id;  // 32 hexadecimal digits
  std::string span_id;   // 16 hexadecimal digits
  friend bool operator==(const TraceParent&, const TraceParent&) = default;
};

// Parses a `traceparent`, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01. The
// specification ignores other texts: the result is empty.
std::optional<TraceParent> trace_parent_of(std::string_view text);

// Adds the trace context of this process to the environment of a process that it starts, unless
// `environment` has one or `parent` is not valid. Null: the variable is not set.
void add_trace_context(std::map<std::string, std::string>& environment, const char* parent,
                       const char* state);

}  // namespace mobula::internal
