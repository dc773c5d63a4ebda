#include "tune/core/space/domain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tune/core/numpy_arithmetic.h"

namespace mobula::internal::tune {
namespace {

double grid_index(double bound, double q, bool up) {
  if (!std::isfinite(bound)) return bound;
  const double scaled = bound / q;
  const double nearest = round_half_even(scaled);
  if (is_close(scaled, nearest)) return nearest;
  return up ? std::ceil(scaled) : std::floor(scaled);
}

Domain float_range(DomainKind kind, double low, double high, double q) {
  Domain domain{.kind = kind};
  domain.low = low;
  domain.high = high;
  domain.q = q;
  return domain;
}

Domain integer_range(DomainKind kind, std::int64_t low, std::int64_t high, double q) {
  Domain domain{.kind = kind};
  domain.first = low;
  domain.past = high;
  domain.q = q;
  return domain;
}

Domain list_of(DomainKind kind, std::vector<Value> values) {
  Domain domain{.kind = kind};
  domain.values = std::move(values);
  return domain;
}

// The integers that a domain draws: multiples of q for quantized ones, as indices, `past` excluded.
struct IndexRange {
  std::int64_t first, past;
};
IndexRange drawn_indices(const Domain& domain) {
  if (domain.q == 0) return {domain.first, domain.past};
  const QuantizedBounds bounds = quantized_bounds(static_cast<double>(domain.first),
                                                  static_cast<double>(domain.past), domain.q);
  return {static_cast<std::int64_t>(bounds.first),
          static_cast<std::int64_t>(bounds.last) + (domain.q == 1 ? 0 : 1)};
}

const char* kind_name(const Domain& domain) {
  switch (domain.kind) {
    case DomainKind::uniform: return domain.q == 0 ? "uniform" : "quniform";
    case DomainKind::loguniform: return domain.q == 0 ? "loguniform" : "qloguniform";
    case DomainKind::normal: return domain.q == 0 ? "randn" : "qrandn";
    case DomainKind::integer: return domain.q == 0 ? "randint" : "qrandint";
    case DomainKind::log_integer: return domain.q == 0 ? "lograndint" : "qlograndint";
    case DomainKind::choice: return "choice";
    case DomainKind::ordered: return "ordered";
    case DomainKind::grid: return "grid_search";
    case DomainKind::sample_from: return "sample_from";
    case DomainKind::constant: return "constant";
  }
  return "domain";
}

// The fault of a domain, or an empty text.
std::string fault_of(const Domain& domain) {
  if (domain.q < 0 || !std::isfinite(domain.q))
    return fmt::format("q is {}; pass a finite q above 0", domain.q);
  switch (domain.kind) {
    case DomainKind::uniform:
    case DomainKind::loguniform: {
      if (!std::isfinite(domain.low) || !std::isfinite(domain.high))
        return fmt::format("bounds {} and {}; pass finite bounds", domain.low, domain.high);
      if (domain.low > domain.high)
        return fmt::format("low {} exceeds high {}; exchange them", domain.low, domain.high);
      if (domain.is_log() && !(domain.low > 0))
        return fmt::format("low is {}; a logarithmic range needs a low above 0", domain.low);
      if (domain.q == 0) return {};
      const QuantizedBounds bounds = quantized_bounds(domain.low, domain.high, domain.q);
      if (bounds.first > bounds.last)
        return fmt::format("no multiple of q {} between {} and {}; pass a smaller q", domain.q,
                           domain.low, domain.high);
      return {};
    }
    case DomainKind::normal:
      if (!std::isfinite(domain.low))
        return fmt::format("mean is {}; pass a finite mean", domain.low);
      if (!(domain.high > 0) || !std::isfinite(domain.high))
        return fmt::format("deviation is {}; pass a finite deviation above 0", domain.high);
      return {};
    case DomainKind::integer:
    case DomainKind::log_integer: {
      if (domain.is_log() && domain.first <= 0)
        return fmt::format("low is {}; a logarithmic range needs a low above 0", domain.first);
      const IndexRange indices = drawn_indices(domain);
      if (indices.first >= indices.past)
        return fmt::format("no value between {} and {}{}; pass a larger high", domain.first,
                           domain.past, domain.q > 1 ? fmt::format(" for q {}", domain.q) : "");
      return {};
    }
    case DomainKind::choice:
    case DomainKind::ordered:
    case DomainKind::grid:
      if (domain.values.empty()) return "no values; pass at least one";
      return {};
    case DomainKind::sample_from:
      if (!domain.draw) return "no function; pass one";
      return {};
    case DomainKind::constant: return {};
  }
  return {};
}

}  // namespace

QuantizedBounds quantized_bounds(double low, double high, double q) {
  return {grid_index(low, q, true), grid_index(high, q, false)};
}

Domain Domain::when(std::string parameter, Value equals) const {
  Domain copy = *this;
  copy.condition = Condition{std::move(parameter), std::move(equals)};
  return copy;
}

Result<void> Domain::check(std::string_view name) const {
  const std::string fault = fault_of(*this);
  if (fault.empty()) return {};
  return failure(ErrorCode::invalid_argument,
                 fmt::format("parameter '{}': {}: {}", name, kind_name(*this), fault));
}

bool Domain::contains(const Value& value) const {
  switch (kind) {
    case DomainKind::uniform:
    case DomainKind::loguniform:
      return !value.is_text() && low <= value.number() && value.number() <= high;
    case DomainKind::normal: return !value.is_text();
    case DomainKind::integer:
    case DomainKind::log_integer:
      // Ray admits the upper bound of a preset value.
      return !value.is_text() && static_cast<double>(first) <= value.number() &&
             value.number() <= static_cast<double>(past);
    case DomainKind::sample_from: return true;
    default: return std::find(values.begin(), values.end(), value) != values.end();
  }
}

Value Domain::sample(NumpyRandom& random) const {
  switch (kind) {
    case DomainKind::uniform:
    case DomainKind::loguniform: {
      double from = low;
      double to = high;
      if (q != 0) {
        const QuantizedBounds bounds = quantized_bounds(low, high, q);
        from = bounds.first * q;
        to = bounds.last * q;
      }
      const double drawn = kind == DomainKind::uniform
                               ? random.uniform(from, to)
                               : std::exp(random.uniform(std::log(from), std::log(to)));
      return q == 0 ? drawn : round_half_even(drawn / q) * q;
    }
    case DomainKind::normal: {
      const double drawn = random.normal(low, high);
      return q == 0 ? drawn : round_half_even(drawn / q) * q;
    }
    case DomainKind::integer:
    case DomainKind::log_integer: {
      const IndexRange indices = drawn_indices(*this);
      const std::int64_t drawn = kind == DomainKind::integer
                                     ? random.integer(indices.first, indices.past)
                                     : static_cast<std::int64_t>(std::floor(std::exp(random.uniform(
                                           std::log(static_cast<double>(indices.first)),
                                           std::log(static_cast<double>(indices.past))))));
      return q == 0 ? drawn : drawn * static_cast<std::int64_t>(q);
    }
    case DomainKind::choice:
    case DomainKind::ordered: return values[random.index(values.size())];
    default: return values.front();
  }
}

Value Domain::clamp(const Value& value) const {
  if (value.is_text()) return value;
  if (is_integer()) {
    const IndexRange indices = drawn_indices(*this);
    const std::int64_t step = q == 0 ? 1 : static_cast<std::int64_t>(q);
    const std::int64_t lowest = indices.first * step;
    const std::int64_t highest = (indices.past - 1) * step;
    if (value.is_integer()) return std::clamp(value.integer(), lowest, highest);
    return std::clamp(value.number(), static_cast<double>(lowest), static_cast<double>(highest));
  }
  if (kind != DomainKind::uniform && kind != DomainKind::loguniform) return value;
  if (value.number() >= low && value.number() <= high) return value;
  return std::clamp(value.number(), low, high);
}

Domain uniform(double low, double high) { return float_range(DomainKind::uniform, low, high, 0); }
Domain quniform(double low, double high, double q) {
  return float_range(DomainKind::uniform, low, high, q == 0 ? -1 : q);
}
Domain loguniform(double low, double high) {
  return float_range(DomainKind::loguniform, low, high, 0);
}
Domain qloguniform(double low, double high, double q) {
  return float_range(DomainKind::loguniform, low, high, q == 0 ? -1 : q);
}
Domain randn(double mean, double deviation) {
  return float_range(DomainKind::normal, mean, deviation, 0);
}
Domain qrandn(double mean, double deviation, double q) {
  return float_range(DomainKind::normal, mean, deviation, q == 0 ? -1 : q);
}
Domain randint(std::int64_t low, std::int64_t high) {
  return integer_range(DomainKind::integer, low, high, 0);
}
Domain qrandint(std::int64_t low, std::int64_t high, std::int64_t q) {
  return integer_range(DomainKind::integer, low, high, q == 0 ? -1 : static_cast<double>(q));
}
Domain lograndint(std::int64_t low, std::int64_t high) {
  return integer_range(DomainKind::log_integer, low, high, 0);
}
Domain qlograndint(std::int64_t low, std::int64_t high, std::int64_t q) {
  return integer_range(DomainKind::log_integer, low, high, q == 0 ? -1 : static_cast<double>(q));
}
Domain choice(std::vector<Value> values) { return list_of(DomainKind::choice, std::move(values)); }
Domain ordered(std::vector<Value> values) {
  return list_of(DomainKind::ordered, std::move(values));
}
Domain grid_search(std::vector<Value> values) {
  return list_of(DomainKind::grid, std::move(values));
}
Domain sample_from(SampleFunction draw) {
  Domain domain{.kind = DomainKind::sample_from};
  domain.draw = std::move(draw);
  return domain;
}
Domain constant(Value value) { return list_of(DomainKind::constant, {std::move(value)}); }

}  // namespace mobula::internal::tune
