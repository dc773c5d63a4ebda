#include "bench/measure.h"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <thread>

namespace mobula::bench {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

Rate measure_rate(const Pace& pace, double multiplier, const std::function<void()>& once) {
  std::this_thread::sleep_for(pace.settle);
  const double warm_up = std::chrono::duration<double>(pace.warm_up).count();
  const double run = std::chrono::duration<double>(pace.run).count();
  std::uint64_t count = 0;
  for (const auto begin = Clock::now(); since(begin) < warm_up; ++count) once();
  const std::uint64_t step = count / 10 + 1;

  std::vector<double> rates;
  for (int i = 0; i < pace.runs; ++i) {
    std::uint64_t calls = 0;
    const auto begin = Clock::now();
    while (since(begin) < run) {
      for (std::uint64_t turn = 0; turn < step; ++turn) once();
      calls += step;
    }
    rates.push_back(multiplier * static_cast<double>(calls) / since(begin));
  }
  return mean_of(rates);
}

Rate mean_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / count), static_cast<int>(values.size())};
}

double seconds_of(const std::function<void()>& once) {
  const auto begin = Clock::now();
  once();
  return since(begin);
}

Figure figure(std::string name, std::string key, double value, std::string unit) {
  return {.name = std::move(name), .key = std::move(key), .mean = value, .unit = std::move(unit)};
}

Figure figure(std::string name, std::string key, const Rate& rate, std::string unit) {
  return {.name = std::move(name), .key = std::move(key), .mean = rate.mean, .sd = rate.sd, .unit = std::move(unit),
          .runs = rate.runs};
}

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("wrong result: " + what);
}

void put_beside(Figure& figure, const Floor& floor, double achieved, bool less_is_better) {
  figure.floor = floor;
  if (floor.value <= 0 || achieved <= 0) return;
  figure.ratio_to_floor = less_is_better ? achieved / floor.value : floor.value / achieved;
}

}  // namespace mobula::bench
