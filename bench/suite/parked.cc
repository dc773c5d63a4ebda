// Round trip of a task without spinning: both ends block until they are woken.
#include <mobula/mobula.h>

#include <algorithm>
#include <chrono>
#include <tuple>

#include "bench/measure/floors.h"
#include "bench/measure/local_nodes.h"
#include "bench/measure/pinning.h"
#include "bench/suite/suite.h"

namespace mobula::bench {
namespace {

int bind_executor(int processor) {
  bind_all_threads(processor);
  return processor;
}

int zero_at_once() { return 0; }

// One run: the median of single round trips in microseconds. The cost of a wake-up varies between
// round trips.
double median_round_trip(const Pace& pace) {
  std::vector<double> each;
  const auto until = std::chrono::steady_clock::now() + pace.run;
  while (std::chrono::steady_clock::now() < until) {
    each.push_back(1e6 * seconds_of([] { std::ignore = get(task<zero_at_once>.remote()); }));
  }
  const auto middle = each.begin() + static_cast<std::ptrdiff_t>(each.size() / 2);
  std::nth_element(each.begin(), middle, each.end());
  return *middle;
}

Figure parked_round_trip(const Pace& pace, int here, int there) {
  std::vector<double> runs;
  Floor floor = futex_round_trip(here, there);
  {
    const LocalNodes nodes(1, {"--spin-us", "0"});
    const Pinned bound(here);  // and the threads that the library starts
    const auto cluster = init();
    // The node has one CPU, so one executor runs all tasks.
    expect(get(task<bind_executor>.remote(there)) == there, "an executor bound to a processor");
    for (int i = 0; i < pace.runs + 1; ++i) {
      const double microseconds = median_round_trip(pace);
      if (i > 0) runs.push_back(microseconds);
    }
  }
  const Floor again = futex_round_trip(here, there);
  floor.value = (floor.value + again.value) / 2;
  const bool one = here == there;
  auto found =
      figure(one ? "a task's round trip, parked, on one processor"
                 : "a task's round trip, parked, between processors",
             one ? "parked_round_trip_one_processor" : "parked_round_trip", mean_of(runs), "us");
  put_beside(found, floor, found.mean, true);
  return found;
}

std::vector<Figure> parked(const Pace& pace) {
  const std::vector<int> processors = allowed_processors();
  std::vector<Figure> figures;
  if (processors.size() > 1)
    figures.push_back(parked_round_trip(pace, processors[0], processors[1]));
  figures.push_back(parked_round_trip(pace, processors[0], processors[0]));
  return figures;
}

}  // namespace

std::vector<Benchmark> parked_benchmarks() {
  return {{"parked", "a task's round trip while both ends sleep, next to the round trip of a futex",
           parked}};
}

}  // namespace mobula::bench
