// Conversions of untyped values to the type with which they are read.
// Thread: any.
#pragma once

#include <cstdint>
#include <memory>

#include "mobula/detail/describe.h"
#include "mobula/detail/value.h"

namespace mobula::internal::client {

// Returns the value as one of `type`. Throws SerializationError with the member that does not fit.
using Conversion = std::shared_ptr<const detail::StoredValue> (*)(
    const detail::StoredValue& stored, const detail::TypeDescription& type);

// Untyped values are converted when they are read as `type`.
void add_conversion(const detail::TypeDescription& type, Conversion conversion);

// The value as one of the type with this fingerprint; null without a conversion.
std::shared_ptr<const detail::StoredValue> convert_stored(const detail::StoredValue& stored,
                                                          std::uint64_t fingerprint);

}  // namespace mobula::internal::client
