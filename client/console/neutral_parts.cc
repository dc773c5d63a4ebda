#include "client/console/neutral_parts.h"

#include <array>
#include <cstdint>
#include <string_view>

#include "client/api/untyped/untyped_payload.h"

namespace mobula::internal::runtime::console {
namespace {

struct KindFacts {
  unsigned extension;  // type of msgpack
  const char* text;
};

// In the order of PartKind.
constexpr std::array<KindFacts, 3> kinds{{{client::neutral_ref_type, "a ref"},
                                          {client::neutral_tensor_type, "a tensor"},
                                          {client::neutral_actor_type, "a handle"}}};

const KindFacts& facts_of(PartKind kind) { return kinds[static_cast<std::size_t>(kind)]; }

// Moves one of `all` to the end of `taken` and returns its new place.
template <class Part>
std::size_t take(const std::vector<Part>& all, std::size_t index, std::vector<Part>& taken) {
  taken.push_back(all.at(index));
  return taken.size() - 1;
}

std::size_t take(PartKind kind, std::size_t index, const NeutralParts& all, NeutralParts& taken) {
  switch (kind) {
    case PartKind::ref: break;
    case PartKind::tensor: return take(all.tensors, index, taken.tensors);
    case PartKind::actor: return take(all.actors, index, taken.actors);
  }
  return take(all.refs, index, taken.refs);
}

std::size_t count_of(PartKind kind, const NeutralParts& parts) {
  switch (kind) {
    case PartKind::ref: break;
    case PartKind::tensor: return parts.tensors.size();
    case PartKind::actor: return parts.actors.size();
  }
  return parts.refs.size();
}

void take_from(Json& json, const NeutralParts& all, NeutralParts& taken) {
  if (const auto kind = kind_of_part(json)) {
    json = json_of_part(*kind, take(*kind, *index_of_part(*kind, json), all, taken));
  } else if (json.is_structured()) {
    for (auto& each : json) take_from(each, all, taken);
  }
}

}  // namespace

std::optional<PartKind> part_kind_of(const detail::TypeDescription& type) {
  if (type.shape != detail::Shape::own) return std::nullopt;
  if (type.name.starts_with("mobula::ObjectRef<")) return PartKind::ref;
  if (type.name.starts_with("mobula::ActorHandle<")) return PartKind::actor;
  if (type.name == detail::type_name<Tensor>) return PartKind::tensor;
  return std::nullopt;
}

const char* text_of(PartKind kind) { return facts_of(kind).text; }

Json json_of_part(PartKind kind, std::size_t index) {
  std::vector<std::uint8_t> bytes(client::neutral_index_bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(index >> (8 * (bytes.size() - 1 - i)));
  return Json::binary(std::move(bytes), facts_of(kind).extension);
}

std::optional<PartKind> kind_of_part(const Json& json) {
  if (!json.is_binary()) return std::nullopt;
  const auto& bytes = json.get_binary();
  if (!bytes.has_subtype() || bytes.size() != client::neutral_index_bytes) return std::nullopt;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (bytes.subtype() == kinds[i].extension) return static_cast<PartKind>(i);
  }
  return std::nullopt;
}

std::optional<std::size_t> index_of_part(PartKind kind, const Json& json) {
  if (kind_of_part(json) != kind) return std::nullopt;
  std::size_t index = 0;
  for (const std::uint8_t each : json.get_binary()) index = index << 8 | each;
  return index;
}

bool is_part_of(const Json& json, const NeutralParts& parts) {
  const auto kind = kind_of_part(json);
  return kind && *index_of_part(*kind, json) < count_of(*kind, parts);
}

detail::ContainedRef counted_part(PartKind kind, std::size_t index, const NeutralParts& parts) {
  return kind == PartKind::actor ? parts.actors.at(index).anchor()->ref()
                                 : parts.refs.at(index).anchor()->ref();
}

std::size_t add_counted(const detail::ContainedRef& ref, NeutralParts& parts) {
  auto anchor = detail::Anchor::retain(ref);
  if (ref.kind == detail::RefKind::actor) {
    parts.actors.emplace_back(std::move(anchor));
    return parts.actors.size() - 1;
  }
  parts.refs.emplace_back(std::move(anchor));
  return parts.refs.size() - 1;
}

NeutralParts take_parts(Json& json, const NeutralParts& all) {
  NeutralParts taken;
  if (!all.empty()) take_from(json, all, taken);
  return taken;
}

}  // namespace mobula::internal::runtime::console
