// The slabs that this process reads: one mapping each, as long as a view of an object in it lives.
//
// The cache itself belongs to one thread (or to its owner's lock); the views it gives out are
// values that any thread may copy and drop, and the last one unmaps. It keeps nothing alive: a slab
// whose views are gone must be asked for again, so no process pins memory that the agent has given
// away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/id.h"
#include "base/result.h"
#include "base/table.h"
#include "store/core/slab_space.h"
#include "store/slab.h"

namespace mobula::internal {

// The bytes of one sealed object. They stay readable, at the same address, while a copy lives.
class SlabView {
 public:
  SlabView(std::shared_ptr<const SlabMapping> mapping, std::span<const std::byte> bytes)
      : mapping_(std::move(mapping)), bytes_(bytes) {}

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::shared_ptr<const SlabMapping> mapping_;  // shared by all views into one slab
  std::span<const std::byte> bytes_;
};

class SlabCache {
 public:
  explicit SlabCache(Paging paging = Paging::on_use) : paging_(paging) {}

  // Whether `view` of an object in this slab succeeds without a descriptor.
  bool maps(SlabId slab) const;
  // The object at `place` in a slab that is mapped: not_found if it is not, invalid_argument if the
  // place lies outside.
  Result<SlabView> view(const Place& place) const;
  // The same, mapping the slab from `fd` if it is not mapped (see SlabMapping::map for what is
  // checked first). The descriptor stays the caller's, and may be closed.
  Result<SlabView> view(const Place& place, int fd, std::uint64_t slab_bytes);

  // Slabs that are mapped now.
  std::size_t mapped() const;

 private:
  void forget_unmapped();

  Paging paging_;
  Table<SlabId, std::weak_ptr<const SlabMapping>> mappings_;
};

}  // namespace mobula::internal
