// Refs inside neutral values. In JSON, a ref is a binary value with a subtype: its index among the
// refs of the value.
// Thread: any (pure functions).
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "mobula/detail/describe.h"
#include "mobula/on_ready.h"

namespace mobula::internal::runtime::console {

using Json = nlohmann::ordered_json;
using NeutralRefs = std::vector<AnyRef>;

// Reports whether the type is an ObjectRef<T>.
bool is_object_ref(const detail::TypeDescription& type);

Json json_of_ref(std::size_t index);
// Returns the index; nothing for other JSON.
std::optional<std::size_t> index_of_ref(const Json& json);

// The refs that `json` has. It refers to them by their new indices afterwards.
NeutralRefs take_refs(Json& json, const NeutralRefs& all);

}  // namespace mobula::internal::runtime::console
