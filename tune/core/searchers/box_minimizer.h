// Minimizes a smooth function within a box: limited-memory BFGS on the free coordinates, with
// projected steps.
// Thread: any (function of its arguments).
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace mobula::internal::tune {

struct BoxBounds {
  double low, high;
};
struct BoxMinimum {
  std::vector<double> point;
  double value = 0;
};
using BoxFunction = std::function<double(std::span<const double>)>;

// Gradients are forward differences. At most `max_rounds` steps.
BoxMinimum minimize_in_box(const BoxFunction& function, std::vector<double> start,
                           std::span<const BoxBounds> bounds, int max_rounds = 100);

}  // namespace mobula::internal::tune
