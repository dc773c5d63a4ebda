// Mappings of the slabs that this process reads: one per slab, while views of its objects exist.
// The last view unmaps the slab.
// Thread: owner for the cache (one thread or lock), any for the views.
// Not: pinning. A slab without views must be requested again, so no process holds memory that the
// agent has released.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/containers/table.h"
#include "base/id.h"
#include "base/result.h"
#include "store/core/slab_space.h"
#include "store/slab.h"

namespace mobula::internal {

// The bytes of one sealed object. They stay readable at the same address while a copy of the view
// exists.
class SlabView {
 public:
  SlabView(std::shared_ptr<const SlabMapping> mapping, std::span<const std::byte> bytes)
      : mapping_(std::move(mapping)), bytes_(bytes) {}

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::shared_ptr<const SlabMapping> mapping_;  // shared by all views of one slab
  std::span<const std::byte> bytes_;
};

class SlabCache {
 public:
  explicit SlabCache(Paging paging = Paging::on_use) : paging_(paging) {}

  // Returns true if the slab is mapped, so that `view` needs no descriptor.
  bool maps(SlabId slab) const;
  // Returns the object at `location` in a mapped slab. Errors: not_found if the slab is not mapped,
  // invalid_argument if the location is outside of it.
  Result<SlabView> view(const ObjectLocation& location) const;
  // The same, but maps the slab from `fd` if needed (SlabMapping::map states the checks). The
  // caller keeps the descriptor and may close it.
  Result<SlabView> view(const ObjectLocation& location, int fd, std::uint64_t slab_bytes);

  // Number of mapped slabs.
  std::size_t mapped() const;

 private:
  void forget_unmapped();

  Paging paging_;
  Table<SlabId, std::weak_ptr<const SlabMapping>> mappings_;
};

}  // namespace mobula::internal
