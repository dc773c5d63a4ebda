// Memory of the agent's slabs: creates it, provides it to its writer, seals it before the first
// reader receives it, and maps it for transfers between nodes. Mappings may outlive the slab.
// Thread: owner. Units: bytes. Not: objects.
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
  // `own`: only the agent writes it.
  Result<void> create(SlabId slab, std::uint64_t size_bytes, bool own);
  void drop(SlabId slab);
  void clear() { rows_.clear(); }

  // A descriptor to send. not_found for a slab that failed or was dropped.
  Result<Fd> for_writer(SlabId slab);
  Result<Fd> for_reader(SlabId slab);
  // The slab with this number in messages; empty if no such slab exists.
  SlabId by_number(std::uint64_t number) const;

  // Mappings in this process: writable for its own slabs, readable for sealed slabs. Shared,
  // because a transfer on another thread may outlive the slab.
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
