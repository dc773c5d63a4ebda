// Prints how often the scheduler packs small cases optimally, next to Ray's rule.
//
// mobula-bench-packing [CASES]      default: 2000 of each kind
#include <cstdio>
#include <cstdlib>

#include "bench/scheduler/packing.h"

int main(int argc, char** argv) {
  using namespace mobula::internal::packing;
  const int cases = argc > 1 ? std::atoi(argv[1]) : 2000;
  if (cases < 1 || cases > 1'000'000) {
    std::fputs("mobula-bench-packing [CASES]: from 1 to 1000000\n", stderr);
    return 2;
  }
  std::fputs(describe(measure_requests(cases), "requests one after another").c_str(), stdout);
  std::fputs(describe(measure_groups(cases), "placement groups").c_str(), stdout);
}
