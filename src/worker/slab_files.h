// The memory of the agent's slabs: makes it, lets its writer map it, seals it before the first
// reader gets it, and maps it here for what other nodes read or send. Knows no objects. One thread;
// mappings that it gives out may live longer than the slab.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"
#include "store/slab.h"

namespace mobula::internal::worker {

class SlabFiles {
 public:
  // `own`: the agent itself writes it, and nobody else.
  Result<void> create(SlabId slab, std::uint64_t size_bytes, bool own);
  void drop(SlabId slab);
  void clear() { rows_.clear(); }

  // A descriptor to send. not_found for a slab that failed or was dropped.
  Result<Fd> for_writer(SlabId slab);
  Result<Fd> for_reader(SlabId slab);
  // The slab that messages call by this number; empty if there is none.
  SlabId by_number(std::uint64_t number) const;

  // Mappings of this process: of a slab of its own, and of any sealed one. Shared, because a
  // transfer on another thread may outlive the slab.
  Result<std::shared_ptr<const WritableSlab>> writable(SlabId slab);
  Result<std::shared_ptr<const SlabMapping>> readable(SlabId slab);

 private:
  struct Row {
    Fd file;
    std::uint64_t size_bytes = 0;
    bool sealed = false;
    std::shared_ptr<const WritableSlab> own;
    std::weak_ptr<const SlabMapping> mapped;
  };
  Result<Row*> find(SlabId slab);
  Result<void> seal(Row& row);

  std::map<SlabId, Row> rows_;
};

}  // namespace mobula::internal::worker
