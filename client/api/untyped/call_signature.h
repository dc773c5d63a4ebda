// The signature of a method as text, which programs of different builds and compilers compare.
// Thread: any (pure).
#pragma once

#include <string>
#include <string_view>

#include "mobula/detail/registry.h"

namespace mobula::internal {

// The name in the common spelling of all compilers, such as "KV::put".
std::string common_name(std::string_view spelled);

// One line per parameter, result, and part of a type, such as "parameter 1, member 2\tint32". Empty
// if the entry has no description. Types that contain themselves end at their second occurrence.
std::string types_of(const detail::Entry& entry);

// The name of a method and its types. Computed once per entry.
struct MethodSignature {
  std::string name;
  std::string types;
};
MethodSignature signature_of(const detail::Entry& entry);

// CallForm::types of a call whose arguments and result are JSON.
inline constexpr std::string_view json_types = "json";

// The declaration of a method, such as "KV::put(string, int32) -> bool".
std::string declaration_of(const detail::Entry& entry);

// The first difference of two texts of types_of, such as "parameter 1, member 2 is int32 in the
// caller's program and int64 in the program of the actor". Empty for equal texts.
std::string difference_of(std::string_view caller, std::string_view actor);

}  // namespace mobula::internal
