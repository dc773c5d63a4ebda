// The bytes of dynamic::Payload: a prefix with the counts of its parts unless it is only a body,
// the sizes of its buffers, the name of the format, the body, and the parts.
// Thread: any (pure).
// Errors: SerializationError for corrupt bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "mobula/detail/type_name.h"
#include "mobula/detail/value.h"

namespace mobula::internal::client {

// The fingerprint of untyped values.
inline constexpr std::uint64_t untyped_fingerprint =
    detail::mix(detail::mix_start, "mobula::dynamic::Payload 2");

// The format of a value of the typed API.
inline constexpr std::string_view typed_format = "c++";

// A ref, tensor, or handle in a neutral value: an msgpack extension with this type, and its index
// among the parts of its kind in the payload, the first byte first.
inline constexpr unsigned neutral_ref_type = 1, neutral_tensor_type = 2, neutral_actor_type = 3;
inline constexpr std::size_t neutral_index_bytes = 4;

// The name of the format of a value that `in` has read up to its header.
std::string_view read_format(mobula::Reader& in);

}  // namespace mobula::internal::client
