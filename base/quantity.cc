#include "base/quantity.h"

#include <cmath>

namespace mobula::internal {

Result<Quantity> Quantity::from_double(double amount) {
  if (std::isnan(amount) || std::isinf(amount)) {
    return failure(ErrorCode::invalid_argument, "is not a finite number");
  }
  if (amount < 0) return failure(ErrorCode::invalid_argument, "is negative");
  if (amount > static_cast<double>(max_whole)) {
    return failure(ErrorCode::invalid_argument, "is more than 100000000000000");
  }
  const double units = amount * static_cast<double>(units_per_one);
  const double nearest = std::round(units);
  // Large byte counts have fewer than four exact decimals in a double; their rounding is harmless.
  if (amount < 1e9 && std::fabs(units - nearest) > 1e-6) {
    return failure(ErrorCode::invalid_argument,
                   "is finer than 0.0001, the smallest amount that can be booked");
  }
  if (amount > 0 && nearest == 0) {
    return failure(ErrorCode::invalid_argument,
                   "is below 0.0001, the smallest amount that can be booked");
  }
  return Quantity(static_cast<std::int64_t>(nearest));
}

Result<Quantity> Quantity::parse(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return failure(ErrorCode::invalid_argument,
                   "'" + std::string(text.substr(0, 64)) + "' " + std::string(why));
  };
  std::int64_t whole = 0;
  std::size_t at = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    whole = whole * 10 + (text[at] - '0');
    if (whole > max_whole) return refuse("is more than 100000000000000");
  }
  const bool has_whole = at > 0;
  std::int64_t fraction = 0;
  std::int64_t digit_units = units_per_one;
  std::size_t digits = 0;
  if (at < text.size() && text[at] == '.') {
    for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, ++digits) {
      if (digit_units == 1 && text[at] != '0') {
        return refuse("is finer than 0.0001, the smallest amount that can be booked");
      }
      if (digit_units > 1) {
        digit_units /= 10;
        fraction += (text[at] - '0') * digit_units;
      }
    }
  }
  if (at != text.size() || (!has_whole && digits == 0)) {
    return refuse("is not a decimal number such as 2 or 0.5");
  }
  if (whole == max_whole && fraction > 0) return refuse("is more than 100000000000000");
  return Quantity(whole * units_per_one + fraction);
}

std::string Quantity::to_string() const {
  const std::int64_t magnitude = units_ < 0 ? -units_ : units_;
  std::string text = std::to_string(magnitude / units_per_one);
  std::int64_t rest = magnitude % units_per_one;
  if (rest != 0) {
    std::string digits = std::to_string(rest + units_per_one).substr(1);
    while (digits.back() == '0') digits.pop_back();
    text += "." + digits;
  }
  return units_ < 0 ? "-" + text : text;
}

}  // namespace mobula::internal
