#include "store/slab_cache.h"

#include <utility>

#include <fmt/format.h>

namespace mobula::internal {
namespace {

Result<SlabView> view_of(std::shared_ptr<const SlabMapping> mapping,
                         const ObjectLocation& location) {
  const std::span<const std::byte> all = mapping->bytes();
  if (location.offset > all.size() || location.size_bytes > all.size() - location.offset) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("object at {}+{} is outside slab {} of {} bytes", location.offset,
                               location.size_bytes, location.slab.brief(), all.size()));
  }
  return SlabView(std::move(mapping), all.subspan(location.offset, location.size_bytes));
}

}  // namespace

bool SlabCache::maps(SlabId slab) const {
  const auto* mapping = mappings_.find(slab);
  return mapping != nullptr && !mapping->expired();
}

Result<SlabView> SlabCache::view(const ObjectLocation& location) const {
  const auto* known = mappings_.find(location.slab);
  auto mapping = known == nullptr ? nullptr : known->lock();
  if (mapping == nullptr) {
    return failure(ErrorCode::not_found,
                   fmt::format("slab {} is not mapped in this process", location.slab.brief()));
  }
  return view_of(std::move(mapping), location);
}

Result<SlabView> SlabCache::view(const ObjectLocation& location, int fd, std::uint64_t slab_bytes) {
  if (maps(location.slab)) return view(location);
  auto mapped = SlabMapping::map(fd, slab_bytes, paging_);
  if (!mapped) return mapped.error();
  forget_unmapped();
  mappings_[location.slab] = *mapped;
  return view_of(std::move(*mapped), location);
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
