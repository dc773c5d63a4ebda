// Edit distance between typed text and a name, for "did you mean" hints.
// Thread: any.
#pragma once

#include <cstddef>
#include <string_view>

namespace mobula::internal {

// Counts missing, added, and replaced characters, and swaps of adjacent ones (optimal string
// alignment distance). Takes time proportional to the product of the lengths.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace mobula::internal
