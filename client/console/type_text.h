// Texts about types of a program, by their descriptions alone, and about JSON: the notation that a
// console shows, and the reason why values of a type have no JSON form.
// Thread: any (pure).
#pragma once

#include <string>
#include <vector>

#include "client/console/neutral_parts.h"
#include "mobula/detail/describe.h"

namespace mobula::internal::runtime::console {

using Parts = std::vector<const detail::TypeDescription*>;

// The types that a type consists of, such as the elements of a container.
Parts parts_of(const detail::TypeDescription& type);

// Such as "int32", "[float64]", "{string: int32}", "Point[float64, float64]".
std::string type_text(const detail::TypeDescription& type);

// The texts of the types, separated by commas.
std::string joined(const Parts& parts);

// JSON cut to the length of a message.
std::string shown(const Json& json);

// Reason why values of the type have no JSON form, with the position of the part; empty if they
// have one. In neutral values, refs and tensors have one: see neutral_parts.h.
std::string why_no_json(const detail::TypeDescription& type, bool neutral = false);

}  // namespace mobula::internal::runtime::console
