#include "store/slab_cache.h"

#include <utility>

#include <fmt/format.h>

namespace mobula::internal {
namespace {

Result<SlabView> view_of(std::shared_ptr<const SlabMapping> mapping, const Place& place) {
  const std::span<const std::byte> all = mapping->bytes();
  if (place.offset > all.size() || place.size_bytes > all.size() - place.offset) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("object at {}+{} is outside slab {} of {} bytes", place.offset,
                               place.size_bytes, place.slab.brief(), all.size()));
  }
  return SlabView(std::move(mapping), all.subspan(place.offset, place.size_bytes));
}

}  // namespace

bool SlabCache::maps(SlabId slab) const {
  const auto* mapping = mappings_.find(slab);
  return mapping != nullptr && !mapping->expired();
}

Result<SlabView> SlabCache::view(const Place& place) const {
  const auto* known = mappings_.find(place.slab);
  auto mapping = known == nullptr ? nullptr : known->lock();
  if (mapping == nullptr) {
    return failure(ErrorCode::not_found,
                   fmt::format("slab {} is not mapped in this process", place.slab.brief()));
  }
  return view_of(std::move(mapping), place);
}

Result<SlabView> SlabCache::view(const Place& place, int fd, std::uint64_t slab_bytes) {
  if (maps(place.slab)) return view(place);
  auto mapped = SlabMapping::map(fd, slab_bytes, paging_);
  if (!mapped) return mapped.error();
  forget_unmapped();
  mappings_[place.slab] = *mapped;
  return view_of(std::move(*mapped), place);
}

std::size_t SlabCache::mapped() const {
  std::size_t count = 0;
  for (const auto& [slab, mapping] : mappings_) count += mapping.expired() ? 0 : 1;
  return count;
}

void SlabCache::forget_unmapped() {
  for (auto at = mappings_.begin(); at != mappings_.end();) {
    at = at->second.expired() ? mappings_.erase(at) : std::next(at);
  }
}

}  // namespace mobula::internal
