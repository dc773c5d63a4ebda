// Axes of plots: linear, logarithmic, or one position per category; with rounded ticks.
// Thread: any (plain values).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tune/core/space/config.h"

namespace mobula::internal::tune {

class PlotAxis {
 public:
  // The range of the values, rounded outwards to ticks; logarithmic for positive values over more
  // than two decades.
  static PlotAxis of_numbers(const std::vector<double>& values);
  // The same, always linear and without rounding.
  static PlotAxis of_range(double low, double high);
  // Numbers if all values are numbers; otherwise categories in the order of their names, at most
  // `max_categories`.
  static PlotAxis of_values(const std::vector<Value>& values);

  static constexpr std::size_t max_categories = 12;

  // The position in 0 to 1; values beyond the range are clipped. Absent for NaN and for categories
  // beyond the limit.
  std::optional<double> position(double value) const;
  std::optional<double> position(const Value& value) const;
  // Positions and texts.
  std::vector<std::pair<double, std::string>> ticks(std::size_t about) const;
  bool is_log() const { return is_log_; }
  bool has_categories() const { return !categories_.empty(); }

 private:
  double low_ = 0, high_ = 1;
  bool is_log_ = false;
  std::vector<std::string> categories_;
};

// At most four significant digits.
std::string short_number(double number);
std::string short_text(const Value& value);

}  // namespace mobula::internal::tune
