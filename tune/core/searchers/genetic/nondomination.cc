#include "tune/core/searchers/genetic/nondomination.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace mobula::internal::tune {
namespace {

// Removes one front after the other. Equal rows have equal ranks.
std::vector<std::size_t> ranks_of(const std::vector<Losses>& rows,
                                  std::size_t needed = std::numeric_limits<std::size_t>::max()) {
  std::vector<Losses> unique = rows;
  std::sort(unique.begin(), unique.end());
  unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
  std::vector<std::size_t> rank_of_unique(unique.size());
  std::vector<std::size_t> left(unique.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  for (std::size_t rank = 0; !left.empty(); ++rank) {
    if (unique.size() - left.size() >= needed) {
      for (const std::size_t row : left) rank_of_unique[row] = rank;
      break;
    }
    // In lexicographic order, no row dominates an earlier one.
    std::vector<std::size_t> front;
    std::vector<std::size_t> rest;
    for (const std::size_t row : left) {
      const bool dominated = std::any_of(front.begin(), front.end(), [&](std::size_t other) {
        return dominates(unique[other], unique[row]);
      });
      (dominated ? rest : front).push_back(row);
    }
    for (const std::size_t row : front) rank_of_unique[row] = rank;
    left = std::move(rest);
  }
  std::vector<std::size_t> ranks;
  for (const auto& row : rows) {
    const auto at = std::lower_bound(unique.begin(), unique.end(), row) - unique.begin();
    ranks.push_back(rank_of_unique[static_cast<std::size_t>(at)]);
  }
  return ranks;
}

}  // namespace

bool dominates(const Losses& a, const Losses& b) {
  if (a == b) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] <= b[i])) return false;
  }
  return true;
}

std::vector<std::size_t> nondomination_ranks(std::span<const Losses> losses,
                                             std::span<const double> penalties,
                                             std::size_t needed) {
  std::vector<Losses> feasible;
  std::vector<Losses> infeasible;
  const auto is_feasible = [&](std::size_t i) { return penalties.empty() || penalties[i] <= 0; };
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (is_feasible(i))
      feasible.push_back(losses[i]);
    else
      infeasible.push_back({penalties[i]});
  }
  const auto feasible_ranks = ranks_of(feasible, needed);
  const auto infeasible_ranks = ranks_of(infeasible);
  std::size_t first = 0;  // rank of the smallest penalty
  for (const std::size_t rank : feasible_ranks) first = std::max(first, rank + 1);
  std::vector<std::size_t> ranks;
  std::size_t next_feasible = 0;
  std::size_t next_infeasible = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    ranks.push_back(is_feasible(i) ? feasible_ranks[next_feasible++]
                                   : first + infeasible_ranks[next_infeasible++]);
  }
  return ranks;
}

std::vector<std::size_t> by_crowding(std::span<const Losses> values) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (order.empty()) return order;
  std::vector<double> distances(values.size(), 0.0);
  for (std::size_t objective = 0; objective < values.front().size(); ++objective) {
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return values[a][objective] < values[b][objective];
    });
    const auto value_at = [&](std::size_t k) { return values[order[k]][objective]; };
    if (value_at(0) == value_at(order.size() - 1)) continue;
    std::vector<double> bounded{-infinity};
    for (const std::size_t i : order) bounded.push_back(values[i][objective]);
    bounded.push_back(infinity);
    const double least =
        *std::find_if(bounded.begin(), bounded.end(), [](double x) { return x != -infinity; });
    const double most =
        *std::find_if(bounded.rbegin(), bounded.rend(), [](double x) { return x != infinity; });
    const double width = most - least <= 0 ? 1.0 : most - least;
    for (std::size_t k = 0; k < order.size(); ++k) {
      const double below = bounded[k];
      const double above = bounded[k + 2];
      distances[order[k]] += (below == above ? 0.0 : above - below) / width;
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return distances[a] < distances[b]; });
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace mobula::internal::tune
