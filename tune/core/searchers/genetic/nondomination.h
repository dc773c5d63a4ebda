// Nondominated sorting and crowding distances of NSGA-II (Deb et al., 2002), in the order of
// Optuna 5.0.
// Thread: any (pure).
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace mobula::internal::tune {

// Losses of one individual, by objective.
using Losses = std::vector<double>;

// True if `a` is at most `b` in all objectives, and they differ.
bool dominates(const Losses& a, const Losses& b);

// The rank of each individual, 0 for the front. With penalties (one for each individual, or none),
// feasible individuals precede all others, which are ranked by their penalty alone. Once `needed`
// feasible individuals have a rank, all others of them share the next one.
std::vector<std::size_t> nondomination_ranks(
    std::span<const Losses> losses, std::span<const double> penalties = {},
    std::size_t needed = std::numeric_limits<std::size_t>::max());

// Indices of `values` (in the direction of the user), the largest crowding distance first. Equal
// distances keep the reverse of the order by the last objective.
std::vector<std::size_t> by_crowding(std::span<const Losses> values);

}  // namespace mobula::internal::tune
