// Converts JSON of a console to values of a program's types, and back, from type descriptions.
// Containers and tuples are arrays, maps with text keys objects, structs arrays of their members,
// times seconds, empty values null. Types with MSGPACK_DEFINE_MAP are objects of their named
// members, those with MSGPACK_DEFINE arrays.
// Thread: any (pure functions).
// Not: types with another custom serializer, refs, handles, and tensors.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "mobula/detail/describe.h"
#include "mobula/detail/value.h"

namespace mobula::internal::runtime::console {

using Json = nlohmann::ordered_json;

// Such as "int32", "[float64]", "{string: int32}", "Point[float64, float64]".
std::string type_text(const detail::TypeDescription& type);

// Reason why values of the type have no JSON form; empty if they have one.
std::string why_no_json(const detail::TypeDescription& type);

// The value, ready to be passed to a call. `json` and `type` must outlive it.
// Errors: invalid_argument with the position in `json` and the expected value.
Result<std::shared_ptr<const detail::Outgoing>> value_of(const Json& json,
                                                         const detail::TypeDescription& type);

// Errors: corrupt if the bytes are not of this type.
Result<Json> json_of(const detail::StoredValue& stored, const detail::TypeDescription& type);

}  // namespace mobula::internal::runtime::console
