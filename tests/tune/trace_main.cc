// Compares a trace of Ray Tune or Optuna on the standard input with the cores:
// tests/tune/oracle/run.sh.
#include <fmt/format.h>

#include <iostream>
#include <sstream>
#include <string>

#include "tune/resource_runner.h"
#include "tune/searchers/suggestion_runner.h"
#include "tune/searchers/wrapper_runner.h"
#include "tune/trace_runner.h"

namespace {

// Reads the trace line by line, so its length does not count.
template <class Runner>
int run_trace(const std::string& first) {
  Runner runner(5000);
  std::istringstream begin(first);
  runner.run(begin);
  runner.run(std::cin);
  for (const auto& difference : runner.differences()) fmt::print("{}\n", difference);
  fmt::print("{} compared, {} different", runner.compared(), runner.difference_count());
  if constexpr (requires { runner.decisions(); }) fmt::print(", {} decisions", runner.decisions());
  if constexpr (requires { runner.ties(); })
    fmt::print(", {} studies cut short by a tie", runner.ties());
  fmt::print("\n");
  return runner.difference_count() == 0 && runner.compared() > 0 ? 0 : 1;
}

}  // namespace

int main() {
  using namespace mobula::internal::tune;
  std::string first;
  std::getline(std::cin, first);
  const TraceWords words = words_of(first);
  if (words.size() < 2) return run_trace<TraceRunner>("");
  if (words[0] != "S") return run_trace<ResourceRunner>(first);
  const std::string& kind = words[1];
  if (kind == "tpe" || kind == "nsga2") return run_trace<SuggestionRunner>(first);
  if (kind == "limiter" || kind == "repeater" || kind == "stoppers")
    return run_trace<WrapperRunner>(first);
  return run_trace<TraceRunner>(first);
}
