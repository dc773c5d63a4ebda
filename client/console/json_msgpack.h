// Reads msgpack as JSON.
// Thread: any (pure functions).
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "client/console/neutral_parts.h"

namespace mobula::internal::runtime::console {

// Reports whether the bytes are one msgpack value with text keys and at most 512 levels. Without
// `with_binary`, it must not have binary parts, which have no JSON text. It may have `parts`.
bool has_json(std::span<const std::byte> bytes, bool with_binary, const NeutralParts& parts = {});

// The JSON of one msgpack value, with binary parts and `parts`. Errors: corrupt.
Result<Json> json_of_msgpack(std::span<const std::byte> bytes, const NeutralParts& parts = {});

}  // namespace mobula::internal::runtime::console
