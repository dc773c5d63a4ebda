// Allocates extents of one slab. It knows offsets and sizes, never bytes. Equal calls give equal
// offsets.
// Thread: owner (one SlabSpace). Units: bytes, multiples of 64 (a cache line).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace mobula::internal {

// A freed extent of the requested size is reused first, the latest one first, because its pages are
// warm. Otherwise the smallest free run that fits is used, the lowest one among equals. Adjacent
// free runs are always merged, so an allocation fails only if no free run is long enough.
class SlabAllocator {
 public:
  static constexpr std::uint64_t alignment = 64;
  // Bytes that an object of `size` occupies: at least one line. `size` is below 2^63.
  static constexpr std::uint64_t extent_bytes(std::uint64_t size) {
    return size == 0 ? alignment : (size + alignment - 1) / alignment * alignment;
  }

  // `size_bytes` is rounded down to a multiple of the alignment.
  explicit SlabAllocator(std::uint64_t size_bytes);

  // Returns the offset of an extent for `size` bytes, or nullopt if no free run is long enough.
  std::optional<std::uint64_t> allocate(std::uint64_t size);
  // Allocates the extent for `size` bytes at `offset`. Returns false without changes if the offset
  // is not aligned, or if a byte is allocated or outside.
  bool claim(std::uint64_t offset, std::uint64_t size);
  // Frees the extent that `allocate` or `claim` created at `offset`.
  void free(std::uint64_t offset);

  std::uint64_t size_bytes() const { return size_bytes_; }
  // Total size of all extents.
  std::uint64_t used_bytes() const { return used_bytes_; }
  std::uint64_t largest_free_bytes() const;
  bool empty() const { return extents_.empty(); }
  // True if `allocate(size)` would reuse a freed extent of exactly that size.
  bool has_warm(std::uint64_t size) const { return warm_index(extent_bytes(size)).has_value(); }

 private:
  struct Extent {
    std::uint64_t offset;
    std::uint64_t size;
  };
  // Number of freed extents that are remembered as warm; older ones are dropped.
  static constexpr std::size_t warm_limit = 64;

  void add_free(std::uint64_t offset, std::uint64_t size);
  void take(std::uint64_t offset, std::uint64_t size);
  // Returns the free run that contains all these bytes.
  std::optional<Extent> run_around(std::uint64_t offset, std::uint64_t size) const;
  std::optional<std::size_t> warm_index(std::uint64_t extent) const;

  std::uint64_t size_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::map<std::uint64_t, std::uint64_t> extents_;                // offset -> size
  std::map<std::uint64_t, std::uint64_t> free_runs_;              // offset -> size
  std::set<std::pair<std::uint64_t, std::uint64_t>> free_sizes_;  // (size, offset)
  std::vector<Extent> warm_;  // latest last; a hint: its bytes may be allocated again
};

}  // namespace mobula::internal
