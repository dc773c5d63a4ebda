// How far what was typed is from a name: for "did you mean". A value function.
#pragma once

#include <cstddef>
#include <string_view>

namespace mobula::internal {

// Characters that are left out, added, or others, and neighbours in each other's place, each counted once (optimal
// string alignment). Takes the product of both lengths in time.
std::size_t edits_between(std::string_view a, std::string_view b);

}  // namespace mobula::internal
