// Reads msgpack as JSON.
// Thread: any (pure functions).
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>

#include "base/result.h"

namespace mobula::internal::runtime::console {

using Json = nlohmann::ordered_json;

// Reports whether the bytes are one msgpack value with text keys and at most 512 levels. Without
// `with_binary`, it must not have binary parts, which have no JSON text. It may have the first
// `refs` refs: see neutral_refs.h.
bool has_json(std::span<const std::byte> bytes, bool with_binary, std::size_t refs = 0);

// The JSON of one msgpack value, with binary parts and the first `refs` refs. Errors: corrupt.
Result<Json> json_of_msgpack(std::span<const std::byte> bytes, std::size_t refs = 0);

}  // namespace mobula::internal::runtime::console
