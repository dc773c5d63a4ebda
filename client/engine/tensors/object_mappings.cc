#include "client/engine/tensors/object_mappings.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/logging/stderr_queue.h"

namespace mobula::internal::client {
namespace {

SlabId slab_id(std::uint64_t slab) { return SlabId(Hash128{0, slab}); }

ObjectLocation location_of(const SlabRange& record) {
  return {slab_id(record.slab), static_cast<std::uint64_t>(record.offset),
          static_cast<std::uint64_t>(record.size_bytes)};
}

}  // namespace

void ObjectMappings::take_descriptor(const AgentToProcess& message, std::vector<Fd> fds) {
  if (const auto* reserved = std::get_if<ReserveObjectReply>(&message)) {
    if (!reserved->new_slab || fds.empty() || reserved->failure) return;
    auto slab = WritableSlab::map(fds.front().get(),
                                  static_cast<std::uint64_t>(reserved->slab_bytes), Paging::on_use);
    if (slab.ok()) writable_.insert_or_assign(reserved->location.slab, std::move(*slab));
    return;
  }
  const auto* readable = std::get_if<FetchObjectReply>(&message);
  if (readable == nullptr || readable->failure) return;
  auto view = fds.empty() ? slabs_.view(location_of(readable->location))
                          : slabs_.view(location_of(readable->location), fds.front().get(),
                                        static_cast<std::uint64_t>(readable->slab_bytes));
  if (!view) {
    print_stderr("mobula: object {} cannot be mapped: {}", readable->object.brief(),
                 view.error().text);
    return;
  }
  mapped_.try_emplace(readable->location.slab, *view);
  readable_.insert_or_assign(readable->object, std::move(*view));
}

void ObjectMappings::unmap(std::uint64_t slab) {
  writable_.erase(slab);
  mapped_.erase(slab);
}

void ObjectMappings::lose_store() {
  for (const auto& [slab, mapping] : writable_) lost_.insert(slab);
  for (const auto& [slab, view] : mapped_) lost_.insert(slab);
}

void ObjectMappings::unmap_lost() {
  for (const std::uint64_t slab : std::exchange(lost_, {})) unmap(slab);
}

Result<std::span<std::byte>> ObjectMappings::reserved(const SlabRange& location,
                                                      std::int64_t size_bytes) {
  const auto slab = writable_.find(location.slab);
  if (slab == writable_.end()) {
    return failure(ErrorCode::unavailable, "the store's memory could not be mapped");
  }
  const auto offset = static_cast<std::uint64_t>(location.offset);
  auto bytes = slab->second.bytes(offset, static_cast<std::uint64_t>(size_bytes));
  if (bytes.ok()) fresh_pages_.will_write(slab->second, offset, bytes->size());
  return bytes;
}

bool ObjectMappings::fill(const SpaceReserved& space) {
  const auto slab = writable_.find(space.location.slab);
  MOBULA_CHECK(slab != writable_.end(), "memory in a slab that was never mapped");
  const bool copies = space.copy_of.slab != 0;
  const auto source = copies ? mapped_bytes(space.object, space.copy_of) : space.payload.bytes();
  if (copies && source.size() != static_cast<std::size_t>(space.location.size_bytes)) return false;
  auto bytes = slab->second.bytes(static_cast<std::uint64_t>(space.location.offset), source.size());
  MOBULA_CHECK(bytes.ok(), "memory outside of its slab");
  std::memcpy(bytes->data(), source.data(), source.size());
  return true;
}

// The value as this process maps it, whatever happened to its store.
std::span<const std::byte> ObjectMappings::mapped_bytes(ObjectId object,
                                                        const SlabRange& location) const {
  if (const auto read = readable_.find(object); read != readable_.end())
    return read->second.bytes();
  const auto slab = writable_.find(location.slab);
  if (slab == writable_.end()) return {};
  const auto bytes = slab->second.bytes(static_cast<std::uint64_t>(location.offset),
                                        static_cast<std::uint64_t>(location.size_bytes));
  return bytes.ok() ? *bytes : std::span<const std::byte>();
}

std::optional<SlabView> ObjectMappings::view(ObjectId object) const {
  const auto at = readable_.find(object);
  return at == readable_.end() ? std::nullopt : std::optional<SlabView>(at->second);
}

}  // namespace mobula::internal::client
