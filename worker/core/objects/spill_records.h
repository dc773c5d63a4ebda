// Commands and events between the agent core and its shell for spilling: bytes that are written to
// files and read back. Plain structs. Files have numbers; names and the directory belong to the
// shell. A later incarnation does not use them.
// Thread: any. Units: bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/fields.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/result.h"

namespace mobula::internal::worker {

// ---- commands -----------------------------------------------------------------------------------

struct SpillItem {
  ObjectId object;
  SlabId slab;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
  MOBULA_FIELDS(object, slab, offset, size_bytes);
  friend bool operator==(const SpillItem&, const SpillItem&) = default;
};

// Writes the items one after another into a new file. SpillFinished reports the result.
struct StartSpill {
  std::uint64_t file = 0;
  std::vector<SpillItem> items;
  MOBULA_FIELDS(file, items);
  friend bool operator==(const StartSpill&, const StartSpill&) = default;
};

// Reads the bytes of an object back into a slab of the agent, and verifies their checksum.
// RestoreFinished reports the result.
struct StartRestore {
  std::uint64_t restore = 0;
  ObjectId object;
  std::uint64_t file = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t size_bytes = 0;
  Hash128 checksum;
  SlabId slab;
  std::uint64_t offset = 0;
  MOBULA_FIELDS(restore, object, file, file_offset, size_bytes, checksum, slab, offset);
  friend bool operator==(const StartRestore&, const StartRestore&) = default;
};

struct DropSpillFile {
  std::uint64_t file = 0;
  MOBULA_FIELDS(file);
  friend bool operator==(const DropSpillFile&, const DropSpillFile&) = default;
};

// ---- events -------------------------------------------------------------------------------------

struct SpilledItem {
  std::uint64_t file_offset = 0;
  Hash128 checksum;
  MOBULA_FIELDS(file_offset, checksum);
  friend bool operator==(const SpilledItem&, const SpilledItem&) = default;
};

// All items of a StartSpill are written, in its order; after a failure, no item and no file exists.
struct SpillFinished {
  std::uint64_t file = 0;
  std::vector<SpilledItem> items;
  std::optional<Failure> failure;
  MOBULA_FIELDS(file, items, failure);
  friend bool operator==(const SpillFinished&, const SpillFinished&) = default;
};

// The failure `corrupt` means that the file no longer contains the object.
struct RestoreFinished {
  std::uint64_t restore = 0;
  std::optional<Failure> failure;
  MOBULA_FIELDS(restore, failure);
  friend bool operator==(const RestoreFinished&, const RestoreFinished&) = default;
};

}  // namespace mobula::internal::worker
