// Converts JSON of a console to values of a program's types, and back, from type descriptions.
// Containers and tuples are arrays, maps with text keys objects, structs arrays of their members,
// times seconds, empty values null. Types with MSGPACK_DEFINE_MAP are objects of their named
// members, those with MSGPACK_DEFINE arrays.
// The neutral form (<mobula/neutral.h>) differs: vectors of bytes are binary values, numbers that
// are not finite stay numbers, and a ref, a tensor, or a handle is an index (neutral_parts.h).
// Thread: any (pure functions).
// Not: types with another custom serializer, streams; tensors, refs, and handles in JSON text.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "client/console/neutral_parts.h"
#include "mobula/detail/describe.h"
#include "mobula/detail/value.h"

namespace mobula::internal::runtime::console {

enum class JsonForm : std::uint8_t { text, neutral };

// The value, ready to be passed to a call. invalid_argument names the path within `json` and what
// belongs there. `json`, `type`, and `parts` are borrowed for as long as the value lives.
Result<std::shared_ptr<const detail::Outgoing>> value_of(const Json& json,
                                                         const detail::TypeDescription& type,
                                                         JsonForm form = JsonForm::text,
                                                         const NeutralParts* parts = nullptr);

// Appends the refs, tensors, and handles of the value to `parts`. Errors: corrupt if the bytes are
// of another type.
Result<Json> json_of(const detail::StoredValue& stored, const detail::TypeDescription& type,
                     JsonForm form = JsonForm::text, NeutralParts* parts = nullptr);

}  // namespace mobula::internal::runtime::console
