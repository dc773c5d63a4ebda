// Points and spans of time for code that may not read a clock. A Time counts from an origin that is
// private to its process or simulation, so it is never sent; messages carry Durations.
// Thread: owner (plain values).
// Units: nanoseconds.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace mobula::internal {

using Duration = std::chrono::nanoseconds;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""us;
using std::chrono_literals::operator""ns;

class Time {
 public:
  constexpr Time() = default;
  static constexpr Time from_ns(std::int64_t ns) { return Time(ns); }

  constexpr std::int64_t ns() const { return ns_; }
  constexpr auto operator<=>(const Time&) const = default;
  constexpr Time operator+(Duration span) const { return Time(ns_ + span.count()); }
  constexpr Time operator-(Duration span) const { return Time(ns_ - span.count()); }
  constexpr Duration operator-(Time earlier) const { return Duration(ns_ - earlier.ns_); }

 private:
  explicit constexpr Time(std::int64_t ns) : ns_(ns) {}
  std::int64_t ns_ = 0;
};

// The monotonic clock of the machine; for shells only, never for a core.
Time monotonic_now();

// Milliseconds since 1970 (UTC), for records; never for deadlines.
std::int64_t wall_clock_ms();

}  // namespace mobula::internal
