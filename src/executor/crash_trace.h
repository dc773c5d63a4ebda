// Prints the native stack of an executor that dies by a signal, where its environment asks for that with
// MOBULA_STACK_TRACES=1. Otherwise Mobula installs no signal handler. Signals that the program handles itself stay its own.
// Thread: trace_crashes_if_asked: the main thread, before user code; CrashStack: any. Not: symbols of static functions.
#pragma once

#include <memory>

namespace mobula::internal::executor {

inline constexpr const char* stack_traces_variable = "MOBULA_STACK_TRACES";
// The first words of a trace.
inline constexpr const char* stack_trace_title = "mobula: native stack of thread";

// The process still dies by the same signal, at most 2 s later.
void trace_crashes_if_asked();

// A stack for the handler, so that the calling thread can report that its own has overflowed. Empty if traces are
// off.
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
