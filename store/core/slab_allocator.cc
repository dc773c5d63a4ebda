#include "store/core/slab_allocator.h"

#include <iterator>

#include "base/check.h"

namespace mobula::internal {

SlabAllocator::SlabAllocator(std::uint64_t size_bytes)
    : size_bytes_(size_bytes / alignment * alignment) {
  if (size_bytes_ > 0) add_free(0, size_bytes_);
}

std::optional<std::uint64_t> SlabAllocator::allocate(std::uint64_t size) {
  const std::uint64_t extent = extent_bytes(size);
  std::uint64_t offset = 0;
  if (const auto index = warm_index(extent)) {
    offset = warm_[*index].offset;
    warm_.erase(warm_.begin() + static_cast<std::ptrdiff_t>(*index));
  } else {
    const auto best = free_sizes_.lower_bound({extent, 0});
    if (best == free_sizes_.end()) return std::nullopt;
    offset = best->second;
  }
  take(offset, extent);
  return offset;
}

bool SlabAllocator::claim(std::uint64_t offset, std::uint64_t size) {
  if (offset % alignment != 0 || size > size_bytes_) return false;
  if (!run_around(offset, extent_bytes(size))) return false;
  take(offset, extent_bytes(size));
  return true;
}

void SlabAllocator::free(std::uint64_t offset) {
  const auto at = extents_.find(offset);
  MOBULA_CHECK(at != extents_.end(), "freed an offset where no extent begins");
  const std::uint64_t size = at->second;
  extents_.erase(at);
  used_bytes_ -= size;
  add_free(offset, size);
  if (warm_.size() == warm_limit) warm_.erase(warm_.begin());
  warm_.push_back({offset, size});
}

std::uint64_t SlabAllocator::largest_free_bytes() const {
  return free_sizes_.empty() ? 0 : free_sizes_.rbegin()->first;
}

void SlabAllocator::add_free(std::uint64_t offset, std::uint64_t size) {
  const auto after = free_runs_.lower_bound(offset);
  if (after != free_runs_.end() && after->first == offset + size) {
    size += after->second;
    free_sizes_.erase({after->second, after->first});
    free_runs_.erase(after);
  }
  const auto next = free_runs_.lower_bound(offset);
  if (next != free_runs_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      free_sizes_.erase({before->second, before->first});
      free_runs_.erase(before);
    }
  }
  free_runs_.emplace(offset, size);
  free_sizes_.emplace(size, offset);
}

void SlabAllocator::take(std::uint64_t offset, std::uint64_t size) {
  const auto run = run_around(offset, size);
  MOBULA_CHECK(run.has_value(), "took bytes that are not free");
  free_runs_.erase(run->offset);
  free_sizes_.erase({run->size, run->offset});
  if (run->offset < offset) {
    free_runs_.emplace(run->offset, offset - run->offset);
    free_sizes_.emplace(offset - run->offset, run->offset);
  }
  const std::uint64_t end = offset + size;
  const std::uint64_t run_end = run->offset + run->size;
  if (end < run_end) {
    free_runs_.emplace(end, run_end - end);
    free_sizes_.emplace(run_end - end, end);
  }
  extents_.emplace(offset, size);
  used_bytes_ += size;
}

std::optional<SlabAllocator::Extent> SlabAllocator::run_around(std::uint64_t offset,
                                                               std::uint64_t size) const {
  const auto after = free_runs_.upper_bound(offset);
  if (after == free_runs_.begin()) return std::nullopt;
  const auto run = std::prev(after);
  const std::uint64_t skipped = offset - run->first;
  if (skipped >= run->second || run->second - skipped < size) return std::nullopt;
  return Extent{run->first, run->second};
}

std::optional<std::size_t> SlabAllocator::warm_index(std::uint64_t extent) const {
  for (std::size_t i = warm_.size(); i > 0; --i) {
    const Extent& hint = warm_[i - 1];
    if (hint.size == extent && run_around(hint.offset, extent)) return i - 1;
  }
  return std::nullopt;
}

}  // namespace mobula::internal
