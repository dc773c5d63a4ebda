// Compares a trace of Ray Tune or Optuna on the standard input with the cores:
// tests/tune/oracle/run.sh.
#include <fmt/format.h>

#include <iostream>
#include <sstream>

#include "tune/suggestion_runner.h"
#include "tune/trace_runner.h"
#include "tune/wrapper_runner.h"

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
  const std::string kind = words_of(trace.str().substr(0, 20)).at(1);
  if (kind == "tpe" || kind == "nsga2") return run_trace<SuggestionRunner>(trace);
  if (kind == "limiter" || kind == "repeater" || kind == "stoppers")
    return run_trace<WrapperRunner>(trace);
  return run_trace<TraceRunner>(trace);
}
