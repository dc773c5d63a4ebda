// Ray's timer for rates (ray_microbenchmark_helpers.py), and the JSON line that a peer prints for
// each figure. For the C++ peers, which are built separately against other runtimes.
// Thread: the main thread.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace compare {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Durations in seconds. The defaults are those of Ray. No run starts after `limit`.
struct Pace {
  double settle = 10;
  double warm_up = 1;
  double run = 2;
  int runs = 4;
  double limit = 120;
  int divisor = 1;  // divides batches that take seconds

  int batch(int size) const { return size / divisor; }
};

inline Pace quick_pace() {
  Pace pace;
  pace.settle = 0.5;
  pace.warm_up = 0.3;
  pace.run = 0.5;
  pace.limit = 10;
  pace.divisor = 10;
  return pace;
}

inline void emit(const std::string& key, const std::vector<double>& values, const char* unit) {
  double sum = 0;
  double squares = 0;
  for (double value : values) sum += value;
  const double count = static_cast<double>(values.size());
  for (double value : values) squares += (value - sum / count) * (value - sum / count);
  std::printf(
      "{\"key\": \"%s\", \"mean\": %.17g, \"sd\": %.17g, \"unit\": \"%s\", \"runs\": %zu}\n",
      key.c_str(), sum / count, std::sqrt(squares / count), unit, values.size());
  std::fflush(stdout);
}

inline void emit_failure(const std::string& key, std::string why) {
  for (char& letter : why) {
    if (letter == '"' || letter == '\\' || static_cast<unsigned char>(letter) < ' ') letter = ' ';
  }
  std::printf("{\"key\": \"%s\", \"failed\": \"%s\"}\n", key.c_str(), why.substr(0, 300).c_str());
  std::fflush(stdout);
}

// Each call of `once` counts as `multiplier` operations.
template <typename Once>
void measure(const std::string& key, double multiplier, const Pace& pace, const Once& once,
             const char* unit = "1/s") {
  try {
    std::this_thread::sleep_for(std::chrono::duration<double>(pace.settle));
    const auto start = Clock::now();
    long count = 0;
    for (; seconds_since(start) < pace.warm_up; ++count) once();
    const long step = count / 10 + 1;
    std::vector<double> rates;
    while (static_cast<int>(rates.size()) < pace.runs &&
           (rates.empty() || seconds_since(start) < pace.limit)) {
      long calls = 0;
      const auto begin = Clock::now();
      while (seconds_since(begin) < pace.run) {
        for (long turn = 0; turn < step; ++turn) once();
        calls += step;
      }
      rates.push_back(multiplier * static_cast<double>(calls) / seconds_since(begin));
    }
    emit(key, rates, unit);
  } catch (const std::exception& why) {
    emit_failure(key, why.what());
  }
}

inline bool has_flag(int argc, char** argv, const char* flag) {
  for (int at = 1; at < argc; ++at) {
    if (std::strcmp(argv[at], flag) == 0) return true;
  }
  return false;
}

// Returns the value after `flag`, or `otherwise`.
inline std::string value_of(int argc, char** argv, const char* flag, const char* otherwise) {
  for (int at = 1; at + 1 < argc; ++at) {
    if (std::strcmp(argv[at], flag) == 0) return argv[at + 1];
  }
  return otherwise;
}

// True if `--only` is absent or names the key. The flag may be repeated.
inline bool wanted(int argc, char** argv, const std::string& key) {
  bool any = false;
  for (int at = 1; at + 1 < argc; ++at) {
    if (std::strcmp(argv[at], "--only") != 0) continue;
    any = true;
    if (key == argv[at + 1]) return true;
  }
  return !any;
}

}  // namespace compare
