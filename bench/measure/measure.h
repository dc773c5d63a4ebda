// A measured number next to the machine's floor, and the timer that measures rates.
// Thread: the main thread of the benchmark program.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mobula::bench {

// The machine's own result for the same kind of work, measured in the same minute.
struct Floor {
  std::string name;
  double value = 0;
  std::string unit;
};

struct Figure {
  std::string name;  // human-readable
  std::string key;   // Ray's key if Ray has the same benchmark
  double mean = 0;
  double sd = 0;  // population standard deviation of the runs
  std::string unit;
  int runs = 1;
  std::optional<Floor> floor{};
  // Ratio of floor and figure in one unit: 1 equals the machine, 10 is ten times worse.
  std::optional<double> ratio_to_floor{};
  std::optional<double> largest_ratio{};  // limit of ratio_to_floor in a full run
};

// Durations of a measurement. The defaults are those of Ray's timer (ray_perf.py): settle, warm up,
// then four runs of two seconds.
struct Pace {
  std::chrono::milliseconds settle{10'000};
  std::chrono::milliseconds warm_up{1'000};
  std::chrono::milliseconds run{2'000};
  int runs = 4;
  // Divides batches. A value other than 1 is only for tests of the benchmarks, and the output
  // reports it.
  int divisor = 1;

  int batch(int size) const { return size / divisor > 0 ? size / divisor : 1; }
};

struct Rate {
  double mean = 0;  // operations per second
  double sd = 0;
  int runs = 0;
};

// Calls `once` repeatedly at this pace. Each call counts as `multiplier` operations.
Rate measure_rate(const Pace& pace, double multiplier, const std::function<void()>& once);

// Rates per second of several actions that take turns, so that other load affects all of them
// equally. In each run, every action has `turns_of_run` turns, one after the other.
struct Turns {
  std::vector<std::vector<double>> rates;  // by action, then by turn

  double rate(std::size_t thing) const;  // median
  // Ratio of the durations of two actions in neighboring turns: the median and the quartiles.
  struct Ratio {
    double median = 0, low = 0, high = 0;
  };
  Ratio time_over(std::size_t thing, std::size_t other) const;
};
inline constexpr int turns_in_run = 10;
Turns measure_in_turns(const Pace& pace, const std::vector<std::function<void()>>& things,
                       int turns_of_run = turns_in_run);

// Needs at least one value.
double median(std::vector<double> values);
// Mean and population standard deviation. Needs at least one value.
Rate mean_of(const std::vector<double>& values);

// Returns the duration of `once` in seconds.
double seconds_of(const std::function<void()>& once);

// A figure measured once, and a figure from a rate.
Figure figure(std::string name, std::string key, double value, std::string unit);
Figure figure(std::string name, std::string key, const Rate& rate, std::string unit);

// Throws std::runtime_error: a benchmark with wrong results has no figure.
void expect(bool holds, std::string_view what);

// Returns why a full run fails: the ratio to the floor exceeds its limit. Empty if it does not.
std::string why_beyond_limit(const Figure& figure);

// Sets the floor of the figure. `achieved` is the figure in the unit of the floor.
void put_beside(Figure& figure, const Floor& floor, double achieved, bool less_is_better);

}  // namespace mobula::bench
