// Compares a trace of Ray Tune or Optuna on the standard input with the cores:
// tests/tune/oracle/run.sh.
#include <fmt/format.h>

#include <iostream>
#include <sstream>

#include "tune/suggestion_runner.h"
#include "tune/trace_runner.h"

namespace {

template <class Runner>
int run_trace(std::istream& trace) {
  Runner runner(5000);
  runner.run(trace);
  for (const auto& difference : runner.differences()) fmt::print("{}\n", difference);
  fmt::print("{} compared, {} different", runner.compared(), runner.difference_count());
  if constexpr (requires { runner.ties(); })
    fmt::print(", {} studies cut short by a tie", runner.ties());
  fmt::print("\n");
  return runner.difference_count() == 0 && runner.compared() > 0 ? 0 : 1;
}

}  // namespace

int main() {
  using namespace mobula::internal::tune;
  std::stringstream trace;
  trace << std::cin.rdbuf();
  return trace.str().starts_with("S tpe") ? run_trace<SuggestionRunner>(trace)
                                          : run_trace<TraceRunner>(trace);
}
