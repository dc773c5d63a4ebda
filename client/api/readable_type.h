// The name of a type as C++ writes it.
// Thread: any.
#pragma once

#include <string>
#include <typeinfo>

namespace mobula::detail {

std::string readable_type(const std::type_info& type);

}  // namespace mobula::detail
