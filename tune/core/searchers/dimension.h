// One parameter as the model-based searchers see it: a range of numbers or a list of categories.
// Values are doubles; a category is the index of its choice. Follows Optuna's distributions.
// Thread: owner (plain values). Errors: dimension_of names the parameter.
#pragma once

#include <cmath>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tune/core/random/random_streams.h"
#include "tune/core/space/domain.h"

namespace mobula::internal::tune {

struct Dimension {
  enum class Kind : unsigned char { real, integer, category };
  Kind kind = Kind::real;
  double low = 0, high = 0;  // both included
  double step = 0;           // 0: continuous
  bool log = false;
  std::vector<Value> choices = {};

  bool is_category() const { return kind == Kind::category; }
  // Only one value exists; it is not part of any model.
  bool single() const;
  // Bounds of the model: widened by half a step, and logarithms for `log`.
  double model_low() const;
  double model_high() const;

  // The index of a choice, or the number; NaN if the value is not a choice.
  double internal(const Value& value) const;
  Value external(double value) const;
  bool contains(double value) const;
  // Between values and coordinates of the model; from_model rounds to steps and bounds.
  double to_model(double value) const { return log ? std::log(value) : value; }
  double from_model(double coordinate) const;
  // Uniform over the transformed range, as Optuna's RandomSampler draws it.
  double sample(NumpyRandom& random) const;

  friend bool operator==(const Dimension& a, const Dimension& b) = default;

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.kind, self.low, self.high, self.step, self.log, self.choices);
  }
};

Dimension real_dimension(double low, double high, double step = 0, bool log = false);
Dimension integer_dimension(double low, double high, double step = 1, bool log = false);
Dimension category_dimension(std::vector<Value> choices);

// The dimension of a domain. Grids, functions, and unbounded domains have none.
Result<Dimension> dimension_of(std::string_view name, const Domain& domain);

}  // namespace mobula::internal::tune
