// Points and spans of time for code that may not read a clock. A Time is nanoseconds since an
// origin that only its process (or simulation) knows, so it never travels; deadlines travel as
// Durations. Value types.
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

// The machine's monotonic clock; for shells only, never for a core.
Time monotonic_now();

// Milliseconds since 1970 (UTC), for records that people read; never for deadlines.
std::int64_t wall_clock_ms();

}  // namespace mobula::internal
