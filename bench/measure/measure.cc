#include "bench/measure/measure.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>

namespace mobula::bench {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double quantile(std::vector<double> values, double part) {
  const auto at = values.begin() +
                  static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

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

Turns measure_in_turns(const Pace& pace, const std::vector<std::function<void()>>& things,
                       int turns_of_run) {
  std::this_thread::sleep_for(pace.settle);
  const auto seconds = [](std::chrono::milliseconds span) {
    return std::chrono::duration<double>(span).count();
  };
  const auto count = static_cast<double>(things.size());
  const auto turn = [](const std::function<void()>& once, double span) {
    std::uint64_t calls = 0;
    const auto begin = Clock::now();
    do {
      once();
      ++calls;
    } while (since(begin) < span);
    return static_cast<double>(calls) / since(begin);
  };
  for (const auto& once : things) turn(once, seconds(pace.warm_up) / count);
  Turns turns;
  turns.rates.resize(things.size());
  for (int i = 0; i < pace.runs * turns_of_run; ++i) {
    for (std::size_t thing = 0; thing < things.size(); ++thing) {
      turns.rates[thing].push_back(turn(things[thing], seconds(pace.run) / turns_of_run));
    }
  }
  return turns;
}

double Turns::rate(std::size_t thing) const { return quantile(rates.at(thing), 0.5); }

Turns::Ratio Turns::time_over(std::size_t thing, std::size_t other) const {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < rates.at(thing).size(); ++i)
    ratios.push_back(rates.at(other)[i] / rates[thing][i]);
  return {quantile(ratios, 0.5), quantile(ratios, 0.25), quantile(ratios, 0.75)};
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
  return {.name = std::move(name),
          .key = std::move(key),
          .mean = rate.mean,
          .sd = rate.sd,
          .unit = std::move(unit),
          .runs = rate.runs};
}

void expect(bool holds, std::string_view what) {
  if (!holds) throw std::runtime_error("wrong result: " + std::string(what));
}

std::string why_beyond_limit(const Figure& figure) {
  if (!figure.largest_ratio || !figure.ratio_to_floor) return {};
  if (*figure.ratio_to_floor <= *figure.largest_ratio) return {};
  char text[100];
  std::snprintf(text, sizeof text, ": %.3f times the floor, and the limit is %.3f",
                *figure.ratio_to_floor, *figure.largest_ratio);
  return figure.name + text;
}

void put_beside(Figure& figure, const Floor& floor, double achieved, bool less_is_better) {
  figure.floor = floor;
  if (floor.value <= 0 || achieved <= 0) return;
  figure.ratio_to_floor = less_is_better ? achieved / floor.value : floor.value / achieved;
}

}  // namespace mobula::bench
