// Exact amounts of resources. Bytes use it too: 1 GiB of memory is 2^30 whole units of one.
// Thread: owner (plain value).
// Units: 1/10000. Never a double inside.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mobula::internal {

class Quantity {
 public:
  static constexpr std::int64_t units_per_one = 10'000;
  // The largest amount in a request or on a node: 100e12 (as in Ray).
  static constexpr std::int64_t max_whole = 100'000'000'000'000;

  constexpr Quantity() = default;
  static constexpr Quantity from_units(std::int64_t units) { return Quantity(units); }
  static constexpr Quantity whole(std::int64_t count) { return Quantity(count * units_per_one); }
  // Rounds to the nearest unit.
  // Errors: invalid_argument for an amount that is negative, NaN, infinite, above max_whole, or
  // more than 1e-6 units away from a whole number of units. 0.12345 is rejected; 0.57 and 0.1+0.2
  // are accepted.
  static Result<Quantity> from_double(double amount);
  // Exact decimal with at most four digits after the point: "2", "0.5". "1e3" is rejected.
  static Result<Quantity> parse(std::string_view text);

  constexpr std::int64_t units() const { return units_; }
  constexpr bool is_whole() const { return units_ % units_per_one == 0; }
  double to_double() const { return static_cast<double>(units_) / units_per_one; }
  // Shortest decimal: "0.5", "2", "-1".
  std::string to_string() const;

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator+(Quantity other) const { return Quantity(units_ + other.units_); }
  constexpr Quantity operator-(Quantity other) const { return Quantity(units_ - other.units_); }
  constexpr Quantity operator-() const { return Quantity(-units_); }
  constexpr Quantity& operator+=(Quantity other) {
    units_ += other.units_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    units_ -= other.units_;
    return *this;
  }

 private:
  explicit constexpr Quantity(std::int64_t units) : units_(units) {}
  std::int64_t units_ = 0;
};

}  // namespace mobula::internal
