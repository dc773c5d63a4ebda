// Refs and tensors inside neutral values. In JSON, each is a binary value with a subtype: its index
// among the refs or the tensors of the value.
// Thread: any (pure functions).
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "mobula/detail/describe.h"
#include "mobula/on_ready.h"
#include "mobula/tensor.h"

namespace mobula::internal::runtime::console {

using Json = nlohmann::ordered_json;

struct NeutralParts {
  std::vector<AnyRef> refs = {};
  std::vector<Tensor> tensors = {};
};
enum class PartKind : std::uint8_t { ref, tensor };

// The kind of the parts that have this type: ObjectRef<T> or Tensor. Nothing for other types.
std::optional<PartKind> part_kind_of(const detail::TypeDescription& type);

Json json_of_part(PartKind kind, std::size_t index);
// Returns the index; nothing for other JSON.
std::optional<std::size_t> index_of_part(PartKind kind, const Json& json);
// Reports whether the JSON is a ref or a tensor, and whether `parts` has it.
bool is_part(const Json& json);
bool is_part_of(const Json& json, const NeutralParts& parts);

// The parts that `json` has. It refers to them by their new indices afterwards.
NeutralParts take_parts(Json& json, const NeutralParts& all);

}  // namespace mobula::internal::runtime::console
