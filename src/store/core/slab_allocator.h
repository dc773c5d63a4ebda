// Hands out extents of one slab: which bytes of it belong to whom, never the bytes themselves.
// Pure: the same calls give the same offsets everywhere. Owned by one SlabSpace; not thread-safe.
//
// Offsets and sizes are multiples of 64 bytes (a cache line). A freed extent of the wanted size is
// reused first, the latest one first, because its pages are warm; otherwise the smallest free run
// that fits is used, the lowest of equals. Neighbouring free runs are always joined, so an
// allocation fails only if no run of free bytes is long enough.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace mobula::internal {

class SlabAllocator {
 public:
  static constexpr std::uint64_t alignment = 64;
  // What an object of `size` bytes occupies: at least one line. `size` is below 2^63.
  static constexpr std::uint64_t extent_bytes(std::uint64_t size) {
    return size == 0 ? alignment : (size + alignment - 1) / alignment * alignment;
  }

  // `size_bytes` is rounded down to a multiple of the alignment.
  explicit SlabAllocator(std::uint64_t size_bytes);

  // The offset of an extent for `size` bytes, or nothing if no free run is long enough.
  std::optional<std::uint64_t> allocate(std::uint64_t size);
  // Books the extent for `size` bytes at `offset`. False, and nothing changes, if the offset is not
  // aligned or one of those bytes is taken or outside.
  bool claim(std::uint64_t offset, std::uint64_t size);
  // Gives back the extent that `allocate` or `claim` made at `offset`.
  void free(std::uint64_t offset);

  std::uint64_t size_bytes() const { return size_bytes_; }
  // The sum of all extents.
  std::uint64_t used_bytes() const { return used_bytes_; }
  std::uint64_t largest_free_bytes() const;
  bool empty() const { return extents_.empty(); }
  std::size_t extent_count() const { return extents_.size(); }
  // Whether `allocate(size)` would reuse a freed extent of exactly that size.
  bool has_warm(std::uint64_t size) const { return warm_index(extent_bytes(size)).has_value(); }

 private:
  struct Extent {
    std::uint64_t offset;
    std::uint64_t size;
  };
  // As many freed extents are remembered as warm; older ones are forgotten.
  static constexpr std::size_t warm_limit = 64;

  void add_free(std::uint64_t offset, std::uint64_t size);
  void take(std::uint64_t offset, std::uint64_t size);
  // The free run that holds all of these bytes.
  std::optional<Extent> run_around(std::uint64_t offset, std::uint64_t size) const;
  std::optional<std::size_t> warm_index(std::uint64_t extent) const;

  std::uint64_t size_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::map<std::uint64_t, std::uint64_t> extents_;                // offset -> size
  std::map<std::uint64_t, std::uint64_t> free_runs_;              // offset -> size
  std::set<std::pair<std::uint64_t, std::uint64_t>> free_sizes_;  // (size, offset)
  std::vector<Extent> warm_;  // latest last; a hint: its bytes may have been taken meanwhile
};

}  // namespace mobula::internal
