#include "client/console/neutral_refs.h"

#include <cstdint>

#include "client/api/untyped_payload.h"

namespace mobula::internal::runtime::console {

bool is_object_ref(const detail::TypeDescription& type) {
  return type.shape == detail::Shape::own && type.name.starts_with("mobula::ObjectRef<");
}

Json json_of_ref(std::size_t index) {
  std::vector<std::uint8_t> bytes(client::neutral_ref_bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(index >> (8 * (bytes.size() - 1 - i)));
  return Json::binary(std::move(bytes), client::neutral_ref_type);
}

std::optional<std::size_t> index_of_ref(const Json& json) {
  if (!json.is_binary()) return std::nullopt;
  const auto& bytes = json.get_binary();
  const bool is_ref = bytes.has_subtype() && bytes.subtype() == client::neutral_ref_type;
  if (!is_ref || bytes.size() != client::neutral_ref_bytes) return std::nullopt;
  std::size_t index = 0;
  for (const std::uint8_t each : bytes) index = index << 8 | each;
  return index;
}

namespace {

void move_refs(Json& json, const NeutralRefs& all, NeutralRefs& taken) {
  if (const auto index = index_of_ref(json)) {
    json = json_of_ref(taken.size());
    taken.push_back(all.at(*index));
  } else if (json.is_structured()) {
    for (auto& each : json) move_refs(each, all, taken);
  }
}

}  // namespace

NeutralRefs take_refs(Json& json, const NeutralRefs& all) {
  NeutralRefs taken;
  if (!all.empty()) move_refs(json, all, taken);
  return taken;
}

}  // namespace mobula::internal::runtime::console
