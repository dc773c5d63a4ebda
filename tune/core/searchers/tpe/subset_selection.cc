#include "tune/core/searchers/tpe/subset_selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tune/core/searchers/gaussian/acquisition.h"

namespace mobula::internal::tune {
namespace {

constexpr double no_loss = std::numeric_limits<double>::infinity();
constexpr double least_reference = 1e-12;

Losses reference_above(std::span<const Losses> rows) {
  Losses reference(rows.front().size(), -no_loss);
  for (const Losses& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) reference[i] = std::max(reference[i], row[i]);
  for (double& worst : reference) {
    worst = std::max(1.1 * worst, 0.9 * worst);
    if (worst == 0) worst = least_reference;
  }
  return reference;
}

double volume_between(const Losses& from, const Losses& to) {
  double volume = 1;
  for (std::size_t i = 0; i < from.size(); ++i) volume *= to[i] - from[i];
  return volume;
}

// Rows in lexicographic order; each has a rectangle up to the selected ones.
std::vector<std::size_t> select_of_two(std::vector<Losses> rows, std::size_t count,
                                       const Losses& reference) {
  std::vector<std::size_t> left(rows.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  std::vector<Losses> corners(rows.size(), reference);
  std::vector<std::size_t> selected;
  while (selected.size() < count) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < left.size(); ++i)
      if (volume_between(rows[left[i]], corners[i]) >
          volume_between(rows[left[best]], corners[best]))
        best = i;
    const Losses& chosen = rows[left[best]];
    selected.push_back(left[best]);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
    corners.erase(corners.begin() + static_cast<std::ptrdiff_t>(best));
    for (std::size_t i = 0; i < left.size(); ++i) {
      double& side = corners[i][i < best ? 0 : 1];
      side = std::min(side, chosen[i < best ? 0 : 1]);
    }
  }
  return selected;
}

// The acquisitions maximize.
ObjectivePoint maximized(const Losses& losses) {
  ObjectivePoint point = losses;
  for (double& value : point) value = -value;
  return point;
}

// A contribution never grows with the selected rows, so an old one is an upper bound.
std::vector<std::size_t> select_of_many(const std::vector<Losses>& rows, std::size_t count,
                                        const Losses& reference) {
  const ObjectivePoint floor = maximized(reference);
  std::vector<double> bounds;
  for (const Losses& row : rows) bounds.push_back(volume_between(row, reference));
  std::vector<std::size_t> left(rows.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  std::vector<std::size_t> selected;
  std::vector<ObjectivePoint> front;
  while (selected.size() < count) {
    std::vector<std::size_t> order = left;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return bounds[a] > bounds[b]; });
    double most = 0;
    for (const std::size_t row : order) {
      if (front.empty() || bounds[row] < most) break;
      bounds[row] = hypervolume_improvement(maximized(rows[row]), front, floor);
      most = std::max(most, bounds[row]);
    }
    const auto best = std::max_element(left.begin(), left.end(), [&](std::size_t a, std::size_t b) {
      return bounds[a] < bounds[b];
    });
    selected.push_back(*best);
    front.push_back(maximized(rows[*best]));
    front = pareto_front(std::move(front));
    left.erase(best);
  }
  return selected;
}

}  // namespace

std::vector<std::size_t> select_subset(std::span<const Losses> rows, std::size_t count,
                                       const Losses& reference) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (count >= rows.size()) return order;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rows[a] < rows[b]; });
  std::vector<std::size_t> unique;
  std::vector<bool> is_unique(rows.size());
  for (const std::size_t row : order) {
    if (!unique.empty() && rows[unique.back()] == rows[row]) continue;
    unique.push_back(row);
    is_unique[row] = true;
  }
  if (unique.size() < count) {
    for (std::size_t row = 0; row < rows.size() && unique.size() < count; ++row)
      if (!is_unique[row]) unique.push_back(row);
    return unique;
  }
  const bool finite = std::all_of(reference.begin(), reference.end(),
                                  [](double value) { return std::isfinite(value); });
  if (!finite || unique.size() == count) {
    unique.resize(count);
    return unique;
  }
  std::vector<Losses> distinct;
  for (const std::size_t row : unique) distinct.push_back(rows[row]);
  std::vector<std::size_t> selected = reference.size() == 2
                                          ? select_of_two(std::move(distinct), count, reference)
                                          : select_of_many(distinct, count, reference);
  for (std::size_t& each : selected) each = unique[each];
  return selected;
}

std::vector<std::size_t> good_rows(std::span<const Losses> rows, std::size_t count) {
  std::vector<std::size_t> good;
  if (count == 0 || rows.empty()) return good;
  const std::vector<std::size_t> ranks = nondomination_ranks(rows, {}, count);
  std::vector<std::size_t> sizes(*std::max_element(ranks.begin(), ranks.end()) + 1);
  for (const std::size_t rank : ranks) ++sizes[rank];
  std::size_t whole = 0;  // ranks below this one are good as a whole
  std::size_t taken = 0;
  while (whole < sizes.size() && taken + sizes[whole] <= count) taken += sizes[whole++];
  std::vector<Losses> last;
  std::vector<std::size_t> last_rows;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (ranks[row] < whole) good.push_back(row);
    if (ranks[row] != whole) continue;
    last.push_back(rows[row]);
    last_rows.push_back(row);
  }
  if (taken < count && !last.empty())
    for (const std::size_t each : select_subset(last, count - taken, reference_above(last)))
      good.push_back(last_rows[each]);
  std::sort(good.begin(), good.end());
  return good;
}

}  // namespace mobula::internal::tune
