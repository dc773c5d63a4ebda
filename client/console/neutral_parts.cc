#include "client/console/neutral_parts.h"

#include <cstdint>

#include "client/api/untyped/untyped_payload.h"

namespace mobula::internal::runtime::console {
namespace {

unsigned extension_of(PartKind kind) {
  return kind == PartKind::ref ? client::neutral_ref_type : client::neutral_tensor_type;
}

// Moves one of `all` to the end of `taken` and returns its new place.
template <class Part>
std::size_t take(const std::vector<Part>& all, std::size_t index, std::vector<Part>& taken) {
  taken.push_back(all.at(index));
  return taken.size() - 1;
}

void take_from(Json& json, const NeutralParts& all, NeutralParts& taken) {
  if (const auto ref = index_of_part(PartKind::ref, json)) {
    json = json_of_part(PartKind::ref, take(all.refs, *ref, taken.refs));
  } else if (const auto tensor = index_of_part(PartKind::tensor, json)) {
    json = json_of_part(PartKind::tensor, take(all.tensors, *tensor, taken.tensors));
  } else if (json.is_structured()) {
    for (auto& each : json) take_from(each, all, taken);
  }
}

}  // namespace

std::optional<PartKind> part_kind_of(const detail::TypeDescription& type) {
  if (type.shape != detail::Shape::own) return std::nullopt;
  if (type.name.starts_with("mobula::ObjectRef<")) return PartKind::ref;
  if (type.name == detail::type_name<Tensor>) return PartKind::tensor;
  return std::nullopt;
}

Json json_of_part(PartKind kind, std::size_t index) {
  std::vector<std::uint8_t> bytes(client::neutral_index_bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(index >> (8 * (bytes.size() - 1 - i)));
  return Json::binary(std::move(bytes), extension_of(kind));
}

std::optional<std::size_t> index_of_part(PartKind kind, const Json& json) {
  if (!json.is_binary()) return std::nullopt;
  const auto& bytes = json.get_binary();
  const bool is_of_kind = bytes.has_subtype() && bytes.subtype() == extension_of(kind);
  if (!is_of_kind || bytes.size() != client::neutral_index_bytes) return std::nullopt;
  std::size_t index = 0;
  for (const std::uint8_t each : bytes) index = index << 8 | each;
  return index;
}

bool is_part(const Json& json) {
  return index_of_part(PartKind::ref, json) || index_of_part(PartKind::tensor, json);
}

bool is_part_of(const Json& json, const NeutralParts& parts) {
  if (const auto ref = index_of_part(PartKind::ref, json)) return *ref < parts.refs.size();
  const auto tensor = index_of_part(PartKind::tensor, json);
  return tensor && *tensor < parts.tensors.size();
}

NeutralParts take_parts(Json& json, const NeutralParts& all) {
  NeutralParts taken;
  if (!all.refs.empty() || !all.tensors.empty()) take_from(json, all, taken);
  return taken;
}

}  // namespace mobula::internal::runtime::console
