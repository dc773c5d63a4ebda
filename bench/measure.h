// One measured number with the floor of this machine beside it, and the timer by which rates are
// taken. Values and functions; for the main thread of the benchmark program.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mobula::bench {

// What the machine itself can do of the same kind, measured in the same minute.
struct Floor {
  std::string name;
  double value = 0;
  std::string unit;
};

struct Figure {
  std::string name;  // for people
  std::string key;   // Ray's key where Ray has the same benchmark
  double mean = 0;
  double sd = 0;  // population standard deviation of the runs
  std::string unit;
  int runs = 1;
  std::optional<Floor> floor{};
  // Floor and figure brought to one scale: 1 is as good as the machine, 10 is ten times worse.
  std::optional<double> ratio_to_floor{};
};

// How long things are measured. The default is Ray's timer (ray_perf.py): settle, warm up, then
// four runs of two seconds.
struct Pace {
  std::chrono::milliseconds settle{10'000};
  std::chrono::milliseconds warm_up{1'000};
  std::chrono::milliseconds run{2'000};
  int runs = 4;
  // Batches are divided by this. Anything but 1 is for trying the benchmarks out, and is said so.
  int divisor = 1;

  int batch(int size) const { return size / divisor > 0 ? size / divisor : 1; }
};

struct Rate {
  double mean = 0;  // operations per second
  double sd = 0;
  int runs = 0;
};

// Calls `once` over and over at this pace; each call counts as `multiplier` operations.
Rate measure_rate(const Pace& pace, double multiplier, const std::function<void()>& once);

// How often each of several things is done a second, while they take turns: what the machine does besides falls on
// all of them alike. For each run every thing has `turns_in_run` turns, one after the other.
struct Turns {
  std::vector<std::vector<double>> rates;  // by thing, and by turn

  double rate(std::size_t thing) const;  // the median
  // How many times as long one takes as another in the turns beside it: the median, and the quartiles.
  struct Ratio {
    double median = 0, low = 0, high = 0;
  };
  Ratio time_over(std::size_t thing, std::size_t other) const;
};
inline constexpr int turns_in_run = 10;
Turns measure_in_turns(const Pace& pace, const std::vector<std::function<void()>>& things);

// Mean and population standard deviation. Needs at least one value.
Rate mean_of(const std::vector<double>& values);

// Seconds that `once` takes.
double seconds_of(const std::function<void()>& once);

// A figure that was measured once, and one that is a rate.
Figure figure(std::string name, std::string key, double value, std::string unit);
Figure figure(std::string name, std::string key, const Rate& rate, std::string unit);

// Throws std::runtime_error: a benchmark whose results are wrong has no figure.
void expect(bool holds, std::string_view what);

// Gives the figure its floor: `achieved` is the figure in the floor's unit.
void put_beside(Figure& figure, const Floor& floor, double achieved, bool less_is_better);

}  // namespace mobula::bench
