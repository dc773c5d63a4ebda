// Refs, tensors, and handles inside neutral values. In JSON, each is a binary value with a subtype:
// its index among the parts of its kind.
// Thread: any (pure functions).
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "mobula/collective.h"
#include "mobula/detail/describe.h"
#include "mobula/on_ready.h"
#include "mobula/tensor.h"

namespace mobula::internal::runtime::console {

using Json = nlohmann::ordered_json;

struct NeutralParts {
  std::vector<AnyRef> refs = {};
  std::vector<Tensor> tensors = {};
  std::vector<AnyActor> actors = {};

  bool empty() const { return refs.empty() && tensors.empty() && actors.empty(); }
};
enum class PartKind : std::uint8_t { ref, tensor, actor };

// The kind of the parts that have this type: ObjectRef<T>, Tensor, or ActorHandle<C>. Nothing for
// other types.
std::optional<PartKind> part_kind_of(const detail::TypeDescription& type);

Json json_of_part(PartKind kind, std::size_t index);
// Returns the index; nothing for other JSON.
std::optional<std::size_t> index_of_part(PartKind kind, const Json& json);
// The kind of a part; nothing for other JSON. `is_part_of` reports whether `parts` has it.
std::optional<PartKind> kind_of_part(const Json& json);
bool is_part_of(const Json& json, const NeutralParts& parts);

// A noun for messages, such as "a ref".
const char* text_of(PartKind kind);

// A ref or a handle, which parts count. `add_counted` returns the index of the added one.
detail::ContainedRef counted_part(PartKind kind, std::size_t index, const NeutralParts& parts);
std::size_t add_counted(const detail::ContainedRef& ref, NeutralParts& parts);

// The parts that `json` has. It refers to them by their new indices afterwards.
NeutralParts take_parts(Json& json, const NeutralParts& all);

}  // namespace mobula::internal::runtime::console
