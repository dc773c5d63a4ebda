#include "tune/core/searchers/box_minimizer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>

namespace mobula::internal::tune {
namespace {

using Vector = std::vector<double>;

constexpr std::size_t history_size = 8;
constexpr double smallest_gradient = 1e-6;
constexpr double smallest_decrease = 1e-10;  // relative

struct Correction {
  Vector step, change;  // differences of the point and of the gradient
  double inverse;       // 1 / (step · change)
};

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Vector gradient_at(const BoxFunction& function, const Vector& point, double value,
                   std::span<const BoxBounds> bounds) {
  Vector gradient(point.size());
  Vector probe = point;
  for (std::size_t i = 0; i < point.size(); ++i) {
    double step = 1.5e-8 * std::max(1.0, std::abs(point[i]));
    if (point[i] + step > bounds[i].high) step = -step;
    probe[i] = point[i] + step;
    gradient[i] = (function(probe) - value) / (probe[i] - point[i]);
    probe[i] = point[i];
  }
  return gradient;
}

// A coordinate at its bound whose gradient points outwards does not move.
bool held(double x, double gradient, const BoxBounds& bounds) {
  return (x <= bounds.low && gradient > 0) || (x >= bounds.high && gradient < 0);
}

Vector descent(const Vector& gradient, const Vector& free, const std::deque<Correction>& history) {
  Vector direction(gradient.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) direction[i] = gradient[i] * free[i];
  Vector weights(history.size());
  for (std::size_t k = history.size(); k-- > 0;) {
    weights[k] = history[k].inverse * dot(history[k].step, direction);
    for (std::size_t i = 0; i < direction.size(); ++i)
      direction[i] -= weights[k] * history[k].change[i];
  }
  if (!history.empty()) {
    const Correction& last = history.back();
    const double scale = 1 / (last.inverse * dot(last.change, last.change));
    for (double& value : direction) value *= scale;
  }
  for (std::size_t k = 0; k < history.size(); ++k) {
    const double weight = history[k].inverse * dot(history[k].change, direction);
    for (std::size_t i = 0; i < direction.size(); ++i)
      direction[i] += (weights[k] - weight) * history[k].step[i];
  }
  for (std::size_t i = 0; i < direction.size(); ++i) direction[i] *= -free[i];
  return direction;
}

}  // namespace

BoxMinimum minimize_in_box(const BoxFunction& function, std::vector<double> start,
                           std::span<const BoxBounds> bounds, int max_rounds) {
  BoxMinimum best{.point = std::move(start)};
  for (std::size_t i = 0; i < bounds.size(); ++i)
    best.point[i] = std::clamp(best.point[i], bounds[i].low, bounds[i].high);
  best.value = function(best.point);
  Vector gradient = gradient_at(function, best.point, best.value, bounds);
  std::deque<Correction> history;
  for (int round = 0; round < max_rounds; ++round) {
    Vector free(gradient.size());
    double largest = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      free[i] = held(best.point[i], gradient[i], bounds[i]) ? 0 : 1;
      largest = std::max(largest, std::abs(gradient[i]) * free[i]);
    }
    if (!(largest > smallest_gradient)) break;
    Vector direction = descent(gradient, free, history);
    if (!(dot(direction, gradient) < 0)) {
      history.clear();
      direction = descent(gradient, free, history);
    }
    // Without a history, the first step has the length of the box at most.
    double scale = 1;
    if (history.empty()) {
      for (std::size_t i = 0; i < direction.size(); ++i) {
        const double size = bounds[i].high - bounds[i].low;
        if (std::abs(direction[i]) > 0) scale = std::min(scale, size / std::abs(direction[i]));
      }
    }
    BoxMinimum next;
    bool found = false;
    for (int halving = 0; halving < 30 && !found; ++halving, scale /= 2) {
      next.point = best.point;
      for (std::size_t i = 0; i < direction.size(); ++i)
        next.point[i] =
            std::clamp(best.point[i] + scale * direction[i], bounds[i].low, bounds[i].high);
      next.value = function(next.point);
      Vector step(direction.size());
      for (std::size_t i = 0; i < step.size(); ++i) step[i] = next.point[i] - best.point[i];
      found = next.value <= best.value + 1e-4 * dot(gradient, step) && next.value < best.value;
    }
    if (!found) break;
    const Vector after = gradient_at(function, next.point, next.value, bounds);
    Correction correction{Vector(after.size()), Vector(after.size()), 0};
    for (std::size_t i = 0; i < after.size(); ++i) {
      correction.step[i] = next.point[i] - best.point[i];
      correction.change[i] = after[i] - gradient[i];
    }
    const double curvature = dot(correction.step, correction.change);
    if (curvature > 1e-12) {
      correction.inverse = 1 / curvature;
      history.push_back(std::move(correction));
      if (history.size() > history_size) history.pop_front();
    }
    const double decrease = best.value - next.value;
    best = std::move(next);
    gradient = after;
    if (decrease <= smallest_decrease * std::max(1.0, std::abs(best.value))) break;
  }
  return best;
}

}  // namespace mobula::internal::tune
