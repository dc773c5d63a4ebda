// Compares a trace of Ray Tune on the standard input with the cores: tests/tune/oracle/run.sh.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>

#include "tune/trace_runner.h"

int main() {
  mobula::internal::tune::TraceRunner runner(5000);
  runner.run(std::cin);
  for (const auto& difference : runner.differences()) fmt::print("{}\n", difference);
  fmt::print("{} compared, {} different\n", runner.compared(), runner.difference_count());
  return runner.difference_count() == 0 && runner.compared() > 0 ? 0 : 1;
}
