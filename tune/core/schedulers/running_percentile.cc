#include "tune/core/schedulers/running_percentile.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "tune/core/numpy_arithmetic.h"

namespace mobula::internal::tune {

void RunningPercentile::add(double value) {
  if (std::isnan(value)) return;
  if (!lower_.empty() && value < lower_.front()) {
    lower_.push_back(value);
    std::push_heap(lower_.begin(), lower_.end());
  } else {
    upper_.push_back(value);
    std::push_heap(upper_.begin(), upper_.end(), std::greater<>());
  }
  const auto wanted = static_cast<std::size_t>(std::floor(position()));
  while (lower_.size() > wanted) {
    std::pop_heap(lower_.begin(), lower_.end());
    upper_.push_back(lower_.back());
    lower_.pop_back();
    std::push_heap(upper_.begin(), upper_.end(), std::greater<>());
  }
  while (lower_.size() < wanted) {
    std::pop_heap(upper_.begin(), upper_.end(), std::greater<>());
    lower_.push_back(upper_.back());
    upper_.pop_back();
    std::push_heap(lower_.begin(), lower_.end());
  }
}

double RunningPercentile::position() const {
  const double rank = static_cast<double>(size() - 1) * fraction_;
  // NumPy does not add 1 to the rank before it splits it.
  return rounding_ == Rounding::numpy ? std::floor(rank) + 1 : rank + 1;
}

std::optional<double> RunningPercentile::value() const {
  if (lower_.empty()) return std::nullopt;
  const double below = lower_.front();
  const double above = upper_.empty() ? below : upper_.front();
  if (rounding_ == Rounding::numpy) {
    const double rank = static_cast<double>(size() - 1) * fraction_;
    return interpolate(below, above, rank - std::floor(rank));
  }
  const double part = position() - std::floor(position());
  if (rounding_ == Rounding::ascending) return part * above + (1 - part) * below;
  return (1 - part) * below + (1 - (1 - part)) * above;
}

}  // namespace mobula::internal::tune
