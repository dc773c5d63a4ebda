// Domains of parameters, with the draws of Ray Tune: integer ranges exclude the upper bound, and
// quantized ranges include it, except for q = 1.
// Thread: owner (plain values). Errors: check() of a domain that no value satisfies.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tune/core/random/random_streams.h"
#include "tune/core/space/config.h"

namespace mobula::internal::tune {

enum class DomainKind : unsigned char {
  uniform,
  loguniform,
  normal,
  integer,      // randint, qrandint
  log_integer,  // lograndint, qlograndint
  choice,
  ordered,  // a choice whose neighbors population based training may take
  grid,
  sample_from,
  constant,
};

struct Condition {
  std::string parameter;
  Value equals;
};

using SampleFunction = std::function<Value(const Config&)>;

// The factory functions below make domains; each member has a meaning for some kinds only.
struct Domain {
  DomainKind kind = DomainKind::constant;
  double low = 0, high = 0;          // uniform, loguniform; mean and deviation of normal
  std::int64_t first = 0, past = 0;  // integers: the bounds, `past` excluded
  double q = 0;                      // quantum; 0: not quantized
  std::vector<Value> values = {};    // choice, ordered, grid; one value of a constant
  SampleFunction draw = {};          // sample_from
  std::optional<Condition> condition = {};

  // Active only while `parameter` has the value `equals`.
  Domain when(std::string parameter, Value equals) const;

  bool is_integer() const { return kind == DomainKind::integer || kind == DomainKind::log_integer; }
  bool is_range() const { return kind <= DomainKind::log_integer; }
  bool is_log() const { return kind == DomainKind::loguniform || kind == DomainKind::log_integer; }
  // "parameter 'lr': loguniform: low 0 is not positive; …"
  Result<void> check(std::string_view name) const;
  bool contains(const Value& value) const;
  // Draws a value. Not for grid and sample_from.
  Value sample(NumpyRandom& random) const;
  // The nearest value of a range; other kinds return `value`.
  Value clamp(const Value& value) const;
};

// Both bounds on the multiples of q, rounded inwards, as indices of multiples.
struct QuantizedBounds {
  double first, last;
};
QuantizedBounds quantized_bounds(double low, double high, double q);

Domain uniform(double low, double high);
Domain quniform(double low, double high, double q);
Domain loguniform(double low, double high);
Domain qloguniform(double low, double high, double q);
Domain randn(double mean = 0, double deviation = 1);
Domain qrandn(double mean, double deviation, double q);
Domain randint(std::int64_t low, std::int64_t high);
Domain qrandint(std::int64_t low, std::int64_t high, std::int64_t q = 1);
Domain lograndint(std::int64_t low, std::int64_t high);
Domain qlograndint(std::int64_t low, std::int64_t high, std::int64_t q);
Domain choice(std::vector<Value> values);
Domain ordered(std::vector<Value> values);
Domain grid_search(std::vector<Value> values);
Domain sample_from(SampleFunction draw);
Domain constant(Value value);

}  // namespace mobula::internal::tune
