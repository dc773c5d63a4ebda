// JSON as values of a program's types, and values as JSON, by descriptions of the types alone: what a console
// says and shows. Numbers are numbers, text is text, containers and tuples are arrays, maps with text as keys
// are objects, structs are arrays of their members in order, times are seconds, what is empty is null. Types with
// MSGPACK_DEFINE_MAP are objects with the names of their members, those with MSGPACK_DEFINE arrays. A type with
// another serializer of its own, a ref, a handle or a tensor has no JSON form. Pure; any thread.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "mobula/detail/describe.h"
#include "mobula/detail/value.h"

namespace mobula::internal::runtime::console {

using Json = nlohmann::ordered_json;

// "int32", "[float64]", "{string: int32}", "Point[float64, float64]".
std::string type_text(const detail::TypeDescription& type);

// Why values of the type have no JSON form; empty where they have one.
std::string why_no_json(const detail::TypeDescription& type);

// The value, ready to be passed to a call. invalid_argument names the place within `json` and what belongs
// there. `json` and `type` are borrowed for as long as the value lives.
Result<std::shared_ptr<const detail::Outgoing>> value_of(const Json& json, const detail::TypeDescription& type);

// Fails with corrupt where the bytes are not of this type.
Result<Json> json_of(const detail::StoredValue& stored, const detail::TypeDescription& type);

}  // namespace mobula::internal::runtime::console
