#include "client/console/stored_copy.h"

#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/containers/block_pool.h"
#include "client/console/json_msgpack.h"
#include "mobula/errors.h"
#include "mobula/neutral.h"
#include "mobula/tensor.h"

namespace mobula::internal::runtime::console {
namespace {

// The elements of tensors that the written value omits, one entry per ref that it contains.
std::vector<detail::ApartTensor> apart_of(const detail::Outgoing& value) {
  std::vector<detail::ApartTensor> apart;
  if (value.apart().empty()) return apart;
  auto next = value.apart().begin();
  for (const detail::ContainedRef& each : value.contained()) {
    apart.emplace_back();
    if (each.kind != detail::RefKind::tensor) continue;
    const auto& parts = *static_cast<const detail::TensorParts*>((next++)->get());
    apart.back() = {parts.storage, parts.byte_offset};
  }
  return apart;
}

}  // namespace

detail::StoredValue stored_copy(const detail::Outgoing& value, const NeutralParts& parts) {
  constexpr std::size_t alignment = 64;
  std::size_t space = value.size_bytes() + alignment;
  struct Memory {
    std::array<std::byte, 64 + alignment> near;
    std::unique_ptr<std::byte[]> far;
    std::vector<AnyRef> refs;
    std::vector<AnyActor> actors;
  };
  const auto memory = make_pooled<Memory>();
  memory->refs = parts.refs;
  memory->actors = parts.actors;
  if (space > memory->near.size()) memory->far.reset(new std::byte[space]);
  void* begin = memory->far ? memory->far.get() : memory->near.data();
  const std::span<std::byte> bytes(
      static_cast<std::byte*>(std::align(alignment, value.size_bytes(), begin, space)),
      value.size_bytes());
  detail::StoredValue copy;
  if (!value.write(bytes)) return copy;
  copy.bytes = bytes;
  copy.owner = memory;
  copy.contained = value.contained();
  copy.apart = apart_of(value);
  return copy;
}

Result<detail::StoredValue> typed_copy(const Json& json, const detail::TypeDescription& type,
                                       JsonForm form, const NeutralParts& parts) {
  const auto value = value_of(json, type, form, form == JsonForm::neutral ? &parts : nullptr);
  if (!value) return value.error();
  if (!parts.tensors.empty()) (*value)->set_apart(all_tensors);
  auto copy = stored_copy(**value, parts);
  if (copy.bytes.empty())
    return failure(ErrorCode::corrupt, "write the value: its size has changed");
  return copy;
}

NeutralJson neutral_json(const detail::StoredValue& stored) {
  const dynamic::StoredPayload payload(
      std::shared_ptr<const detail::StoredValue>(std::shared_ptr<const void>(), &stored));
  auto all = payload.parts(dynamic::neutral_format);
  NeutralJson value;
  value.parts = {std::move(all.refs), std::move(all.tensors), std::move(all.actors)};
  auto json = json_of_msgpack(all.body, value.parts);
  if (!json) throw SerializationError(json.error().text);
  value.json = std::move(*json);
  return value;
}

}  // namespace mobula::internal::runtime::console
