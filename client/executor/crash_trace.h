// Prints the native stack of an executor that dies by a signal, if its environment has
// MOBULA_STACK_TRACES=1. Otherwise Mobula installs no signal handler. Handlers of the program stay
// in place.
// Thread: main thread, before user code (trace_crashes_if_enabled); any (CrashStack).
// Not: symbols of static functions.
#pragma once

#include <memory>

namespace mobula::internal::executor {

inline constexpr const char* stack_traces_variable = "MOBULA_STACK_TRACES";
// Prefix of a trace.
inline constexpr const char* stack_trace_title = "mobula: native stack of thread";

// The process still dies by the same signal, at most 2 s later.
void trace_crashes_if_enabled();

// An alternate signal stack, so that the calling thread can report its own stack overflow. Empty if
// traces are off.
class CrashStack {
 public:
  CrashStack();
  ~CrashStack();
  CrashStack(const CrashStack&) = delete;
  CrashStack& operator=(const CrashStack&) = delete;

 private:
  std::unique_ptr<char[]> memory_;
};

}  // namespace mobula::internal::executor
