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
  const auto wanted = static_cast<std::size_t>(std::floor(rank())) + 1;
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

std::optional<double> RunningPercentile::value() const {
  if (lower_.empty()) return std::nullopt;
  const double at = rank();
  const double below = lower_.front();
  return interpolate(below, upper_.empty() ? below : upper_.front(), at - std::floor(at));
}

}  // namespace mobula::internal::tune
