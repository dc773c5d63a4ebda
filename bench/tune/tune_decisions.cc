// Measures decisions of the cores of Tune: ASHA with many recorded values, and TPE ask and tell
// with many trials. Prints one line per figure: name, value, unit.
//   mobula-bench-tune [TRIALS]   (TRIALS of the largest TPE study, default 100,000)
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "tune/core/schedulers/successive_halving.h"
#include "tune/core/searchers/tpe/parzen_search.h"

namespace {

using namespace mobula::internal::tune;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void measure_asha(std::int64_t recorded) {
  auto scheduler = make_successive_halving({.max_t = 100, .reduction_factor = 4}).value();
  TrialTable trials;
  TuneRandom random{NumpyRandom(1), PythonRandom(1)};
  NumpyRandom values(2);
  const std::int64_t measured = 20'000;
  std::vector<Report> reports;
  for (std::int64_t i = 0; i < recorded + measured; ++i) {
    const TrialNumber trial = trials.add({});
    if (!scheduler->added(trial, {trials, random})) std::abort();
    reports.push_back({.trial = trial, .time = 1, .value = values.unit()});
  }
  std::int64_t stopped = 0;
  auto report = [&](std::int64_t i) {
    const auto decision =
        scheduler->reported(reports[static_cast<std::size_t>(i)], {trials, random});
    stopped += decision.ok() && *decision == Decision::stop ? 1 : 0;
  };
  for (std::int64_t i = 0; i < recorded; ++i) report(i);
  const auto begin = Clock::now();
  for (std::int64_t i = 0; i < measured; ++i) report(recorded + i);
  fmt::print("asha_decision_{}_recorded {:.3f} us ({} stopped)\n", recorded,
             seconds_since(begin) / static_cast<double>(measured) * 1e6, stopped);
}

// One study that grows; each figure is the median of ask and tell at its number of trials.
void measure_tpe(const std::vector<std::int64_t>& sizes, std::size_t dimensions) {
  auto search = ParzenSearch::make({}, SearchSpace()).value();
  NumpyRandom model(1);
  NumpyRandom values(2);
  const Dimension unit = real_dimension(0, 1);
  std::vector<std::string> names;
  for (std::size_t d = 0; d < dimensions; ++d) names.push_back(fmt::format("x{}", d));
  std::int64_t next = 0;
  auto ask = [&](SearchAlgorithm& algorithm) {
    double loss = 0;
    if (!algorithm.begin(next, {model, model})) std::abort();
    for (const std::string& name : names) {
      const double x = algorithm.suggest(next, name, unit, {model, model}).value().number();
      loss += (x - 0.3) * (x - 0.3);
    }
    algorithm.tell(next++, {.value = loss});
  };
  for (const std::int64_t size : sizes) {
    // Random trials fill the study, as an import does.
    auto filler = ParzenSearch::make({.n_startup_trials = 1'000'000'000}, SearchSpace()).value();
    if (!filler->load(search->save())) std::abort();
    while (next < size) ask(*filler);
    if (!search->load(filler->save())) std::abort();
    ask(*search);  // sorts the columns
    std::vector<double> times;
    const std::clock_t processor = std::clock();
    for (int i = 0; i < 11; ++i) {
      const auto begin = Clock::now();
      ask(*search);
      times.push_back(seconds_since(begin));
    }
    const double busy = static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC / 11;
    std::sort(times.begin(), times.end());
    fmt::print("tpe_ask_tell_{}_trials {:.3f} ms (largest {:.3f}, processor time {:.3f})\n", size,
               times[5] * 1e3, times[10] * 1e3, busy * 1e3);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t most = argc > 1 ? std::atoll(argv[1]) : 100'000;
  measure_asha(std::min<std::int64_t>(most, 100'000));
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : {100, 1'000, 10'000, 100'000})
    if (size <= most) sizes.push_back(size);
  measure_tpe(sizes, 5);
  return 0;
}
