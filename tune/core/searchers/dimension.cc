#include "tune/core/searchers/dimension.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tune/core/numpy_arithmetic.h"

namespace mobula::internal::tune {
namespace {

// The largest value that steps from `low` reach. Optuna computes it in decimal arithmetic.
double last_step(double low, double high, double step) {
  const double count = (high - low) / step;
  const double nearest = round_half_even(count);
  const double steps =
      std::abs(count - nearest) < 1e-8 * std::max(1.0, nearest) ? nearest : std::floor(count);
  return steps == nearest && is_close(low + steps * step, high) ? high : low + steps * step;
}

double below_high(const Dimension& dimension) {
  return std::nextafter(dimension.high, dimension.high - 1);
}

}  // namespace

bool Dimension::single() const {
  if (is_category()) return choices.size() == 1;
  return low == high || (step != 0 && high - low < step);
}

double Dimension::model_low() const {
  const double widened = low - step / 2;
  return log ? std::log(widened) : widened;
}

double Dimension::model_high() const {
  const double widened = high + step / 2;
  return log ? std::log(widened) : widened;
}

double Dimension::internal(const Value& value) const {
  if (!is_category())
    return value.is_text() ? std::numeric_limits<double>::quiet_NaN() : value.number();
  const auto at = std::find(choices.begin(), choices.end(), value);
  return at == choices.end() ? std::numeric_limits<double>::quiet_NaN()
                             : static_cast<double>(at - choices.begin());
}

Value Dimension::external(double value) const {
  if (is_category()) return choices[static_cast<std::size_t>(value)];
  if (kind == Kind::integer) return static_cast<std::int64_t>(value);
  return value;
}

bool Dimension::contains(double value) const {
  if (is_category()) return value >= 0 && value < static_cast<double>(choices.size());
  if (!(low <= value && value <= high)) return false;
  if (step == 0) return true;
  const double count = (value - low) / step;
  return std::abs(count - round_half_even(count)) < 1e-8;
}

double Dimension::sample(NumpyRandom& random) const {
  if (is_category()) {
    // One draw per choice, and the first largest one wins.
    double best = -1;
    std::size_t index = 0;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const double drawn = random.unit();
      if (drawn > best) {
        best = drawn;
        index = i;
      }
    }
    return static_cast<double>(index);
  }
  return from_model(random.uniform(model_low(), model_high()));
}

double Dimension::from_model(double coordinate) const {
  if (kind == Kind::integer) {
    if (log) return std::clamp(round_half_even(std::exp(coordinate)), low, high);
    return std::clamp(std::floor((coordinate - low) / step + 0.5) * step + low, low, high);
  }
  if (log)
    return single() ? std::exp(coordinate)
                    : std::clamp(std::exp(coordinate), low, below_high(*this));
  if (step != 0)
    return std::clamp(round_half_even((coordinate - low) / step) * step + low, low, high);
  return single() ? coordinate : std::min(coordinate, below_high(*this));
}

Dimension real_dimension(double low, double high, double step, bool log) {
  if (step != 0) high = last_step(low, high, step);
  return {.kind = Dimension::Kind::real, .low = low, .high = high, .step = step, .log = log};
}

Dimension integer_dimension(double low, double high, double step, bool log) {
  high = low + std::floor((high - low) / step) * step;
  return {.kind = Dimension::Kind::integer, .low = low, .high = high, .step = step, .log = log};
}

Dimension category_dimension(std::vector<Value> choices) {
  return {.kind = Dimension::Kind::category, .choices = std::move(choices)};
}

Result<Dimension> dimension_of(std::string_view name, const Domain& domain) {
  const auto first = static_cast<double>(domain.first);
  const auto past = static_cast<double>(domain.past);
  switch (domain.kind) {
    case DomainKind::uniform:
      if (domain.q == 0) return real_dimension(domain.low, domain.high);
      {
        const QuantizedBounds bounds = quantized_bounds(domain.low, domain.high, domain.q);
        return real_dimension(bounds.first * domain.q, bounds.last * domain.q, domain.q);
      }
    case DomainKind::loguniform:
      if (domain.q != 0) break;
      return real_dimension(domain.low, domain.high, 0, true);
    case DomainKind::integer: {
      if (domain.q <= 1) return integer_dimension(first, past - 1);
      const QuantizedBounds bounds = quantized_bounds(first, past, domain.q);
      return integer_dimension(bounds.first * domain.q, bounds.last * domain.q, domain.q);
    }
    case DomainKind::log_integer:
      if (domain.q > 1) break;
      return integer_dimension(first, past - 1, 1, true);
    case DomainKind::choice:
    case DomainKind::ordered:
    case DomainKind::constant: return category_dimension(domain.values);
    default: break;
  }
  return failure(ErrorCode::invalid_argument,
                 fmt::format("parameter '{}': searchers with a model take uniform, quniform, "
                             "loguniform, randint, qrandint, lograndint, choice, and ordered",
                             name));
}

}  // namespace mobula::internal::tune
