// Values in memory of their own, for conversions.
// Thread: any (pure functions).
#pragma once

#include <cstddef>

#include "client/console/neutral_parts.h"
#include "mobula/detail/value.h"

namespace mobula::internal::runtime::console {

// Least size of an omitted tensor: every tensor with elements is omitted.
inline constexpr std::size_t all_tensors = 1;

// A value that owns its bytes and counts its refs and handles. The bytes are aligned to 64 bytes
// here, because aligned allocations fragment the heap. A reader gets the elements of tensors
// without a copy, on any device, if the value omits them. Without bytes: writing failed.
detail::StoredValue stored_copy(const detail::Outgoing& value, const NeutralParts& parts = {});

}  // namespace mobula::internal::runtime::console
