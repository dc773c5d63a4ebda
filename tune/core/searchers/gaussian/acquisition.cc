#include "tune/core/searchers/gaussian/acquisition.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mobula::internal::tune {
namespace {

// exp(x²) erfc(x) for x > 5, by a continued fraction.
double scaled_erfc(double x) {
  double fraction = x;
  for (int k = 40; k > 0; --k) fraction = x + (k / 2.0) / fraction;
  return 1 / (fraction * std::sqrt(std::numbers::pi));
}

// Logarithm of z Φ(z) + φ(z).
double log_ei_of_standard(double z) {
  const double log_root = 0.5 * std::log(2 * std::numbers::pi);
  if (z > -25) {
    const double value =
        0.5 * z * std::erfc(-z / std::numbers::sqrt2) + std::exp(-0.5 * z * z - log_root);
    if (value > 0) return std::log(value);
  }
  const double tail =
      1 + std::sqrt(std::numbers::pi / 2) * z * scaled_erfc(-z / std::numbers::sqrt2);
  // The difference loses its digits far from 0, where it approaches 1 / z².
  const double rest = tail > 0 && z > -1e4 ? tail : 1 / (z * z);
  return -0.5 * z * z - log_root + std::log(rest);
}

bool covers(const ObjectivePoint& a, const ObjectivePoint& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] < b[i]) return false;
  }
  return true;
}

// Slices along the first objective; the points are a front.
double sliced_volume(std::vector<ObjectivePoint> points, std::span<const double> reference) {
  if (points.empty()) return 0;
  std::sort(points.begin(), points.end(), std::greater<>());
  if (reference.size() == 1) return std::max(0.0, points.front()[0] - reference[0]);
  double volume = 0;
  std::vector<ObjectivePoint> slice;
  for (std::size_t i = 0; i < points.size(); ++i) {
    slice.emplace_back(points[i].begin() + 1, points[i].end());
    const double next =
        i + 1 < points.size() ? std::max(points[i + 1][0], reference[0]) : reference[0];
    const double width = points[i][0] - next;
    if (width > 0) volume += width * sliced_volume(pareto_front(slice), reference.subspan(1));
  }
  return volume;
}

// The same as hypervolume_improvement for two objectives, without copies. A front descends in its
// first objective and ascends in the second.
double improvement_of_two(const ObjectivePoint& point, const std::vector<ObjectivePoint>& front,
                          std::span<const double> reference) {
  double right = point[0];
  double height = reference[1];
  double volume = 0;
  for (const auto& other : front) {
    if (other[0] < right) {
      const double left = std::max(other[0], reference[0]);
      volume += (right - left) * (point[1] - height);
      right = left;
    }
    height = std::max(height, other[1]);
    if (height >= point[1] || right <= reference[0]) return volume;
  }
  return volume + (right - reference[0]) * (point[1] - height);
}

}  // namespace

double log_expected_improvement(double mean, double variance, double threshold) {
  const double deviation = std::sqrt(variance);
  return log_ei_of_standard((mean - threshold) / deviation) + std::log(deviation);
}

double log_probability_above(double mean, double variance, double threshold) {
  const double z = (threshold - mean) / std::sqrt(2 * variance);
  if (z < 5) return std::log(0.5 * std::erfc(z));
  return -z * z + std::log(0.5 * scaled_erfc(z));
}

std::vector<ObjectivePoint> pareto_front(std::vector<ObjectivePoint> points) {
  std::sort(points.begin(), points.end(), std::greater<>());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  std::vector<ObjectivePoint> front;
  // In descending order, no point dominates an earlier one.
  for (auto& point : points) {
    const bool dominated = std::any_of(front.begin(), front.end(),
                                       [&](const auto& other) { return covers(other, point); });
    if (!dominated) front.push_back(std::move(point));
  }
  return front;
}

double hypervolume(std::vector<ObjectivePoint> points, std::span<const double> reference) {
  std::erase_if(points, [&](const auto& point) {
    for (std::size_t i = 0; i < reference.size(); ++i) {
      if (!(point[i] > reference[i])) return true;
    }
    return false;
  });
  return sliced_volume(pareto_front(std::move(points)), reference);
}

double hypervolume_improvement(const ObjectivePoint& point,
                               const std::vector<ObjectivePoint>& front,
                               std::span<const double> reference) {
  double box = 1;
  for (std::size_t i = 0; i < reference.size(); ++i) box *= std::max(0.0, point[i] - reference[i]);
  if (box <= 0) return 0;
  if (reference.size() == 2) return improvement_of_two(point, front, reference);
  // The parts of the front within the box of the point.
  std::vector<ObjectivePoint> limited;
  for (const auto& other : front) {
    ObjectivePoint part(other.size());
    for (std::size_t i = 0; i < part.size(); ++i) part[i] = std::min(other[i], point[i]);
    limited.push_back(std::move(part));
  }
  return std::max(0.0, box - hypervolume(std::move(limited), reference));
}

}  // namespace mobula::internal::tune
