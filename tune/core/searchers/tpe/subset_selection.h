// The good trials of several objectives, as in Optuna 5.0: by nondomination rank, and within the
// last rank by the hypervolume that a greedy choice adds.
// Thread: any (pure). All values are losses.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tune/core/searchers/genetic/nondomination.h"

namespace mobula::internal::tune {

// Indices of the `count` good rows, in ascending order. No loss is NaN.
std::vector<std::size_t> good_rows(std::span<const Losses> rows, std::size_t count);

// Indices of `count` rows (at most their number) whose hypervolume below `reference` is large.
std::vector<std::size_t> select_subset(std::span<const Losses> rows, std::size_t count,
                                       const Losses& reference);

}  // namespace mobula::internal::tune
