// Values in memory of their own, for conversions.
// Thread: any (pure functions).
#pragma once

#include <cstddef>

#include "base/result.h"
#include "client/console/json_values.h"
#include "client/console/neutral_parts.h"
#include "mobula/detail/value.h"

namespace mobula::internal::runtime::console {

// Least size of an omitted tensor: every tensor with elements is omitted.
inline constexpr std::size_t all_tensors = 1;

// A value that owns its bytes and counts its refs and handles. The bytes are aligned to 64 bytes
// here, because aligned allocations fragment the heap. A reader gets the elements of tensors
// without a copy, on any device, if the value omits them. Without bytes: writing failed.
detail::StoredValue stored_copy(const detail::Outgoing& value, const NeutralParts& parts = {});

// The value of `type` that the JSON and its parts describe. Errors: as value_of.
Result<detail::StoredValue> typed_copy(const Json& json, const detail::TypeDescription& type,
                                       JsonForm form, const NeutralParts& parts);

// A stored neutral value.
struct NeutralJson {
  Json json;
  NeutralParts parts;
};
// Refers to the bytes of `stored`. Throws SerializationError for another format.
NeutralJson neutral_json(const detail::StoredValue& stored);

}  // namespace mobula::internal::runtime::console
