// Compares the stored description of an experiment with that of the program that continues it.
// Thread: any (function of its arguments).
#pragma once

#include <string>

namespace mobula::internal::tune {

// The first difference as "space: parameter 'lr' was {…} and is {…}"; empty: none. Both are JSON
// objects. Members that a description of an earlier release lacks are equal.
std::string spec_difference(const std::string& stored, const std::string& present);

}  // namespace mobula::internal::tune
