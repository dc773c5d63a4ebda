#include "base/text/amount_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <locale>
#include <map>
#include <optional>
#include <sstream>

namespace mobula::internal {
namespace {

struct Amount {
  double number = 0;
  std::string unit;  // lower case
};

// Digits with at most one point, then letters. No sign, exponent, or locale.
std::optional<Amount> split_amount(const std::string& text) {
  const auto digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string number = text.substr(0, digits);
  if (number.empty() || number == "." || std::count(number.begin(), number.end(), '.') > 1)
    return std::nullopt;
  Amount amount;
  std::istringstream stream(number);
  stream.imbue(std::locale::classic());
  stream >> amount.number;
  amount.unit = text.substr(digits);
  for (char& c : amount.unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return amount;
}

}  // namespace

Result<std::int64_t> parse_bytes(const std::string& text) {
  static const std::map<std::string, double> units{
      {"", 1},         {"b", 1},      {"k", 0x1p10},   {"kib", 0x1p10}, {"m", 0x1p20},
      {"mib", 0x1p20}, {"g", 0x1p30}, {"gib", 0x1p30}, {"t", 0x1p40},   {"tib", 0x1p40},
      {"kb", 1e3},     {"mb", 1e6},   {"gb", 1e9},     {"tb", 1e12}};
  const auto amount = split_amount(text);
  const auto unit = amount ? units.find(amount->unit) : units.end();
  if (unit == units.end()) {
    return failure(ErrorCode::invalid_argument,
                   "'" + text + "' is not a size such as 1073741824, 512MiB or 4GiB");
  }
  const double bytes = amount->number * unit->second;
  if (bytes > 0x1p60)
    return failure(ErrorCode::invalid_argument, "'" + text + "' is more than any machine has");
  return static_cast<std::int64_t>(std::llround(bytes));
}

Result<double> parse_seconds(const std::string& text) {
  static const std::map<std::string, double> units{{"ms", 1e-3}, {"", 1},     {"s", 1},
                                                   {"m", 60},    {"h", 3600}, {"d", 86'400}};
  const auto amount = split_amount(text);
  const auto unit = amount ? units.find(amount->unit) : units.end();
  if (unit == units.end()) {
    return failure(
        ErrorCode::invalid_argument,
        "'" + text + "' is not a time: give seconds, or a unit as in 90s, 1.5m, 2h or 250ms");
  }
  return amount->number * unit->second;
}

}  // namespace mobula::internal
