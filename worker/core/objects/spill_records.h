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
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &SpillItem::object), field("slab", &SpillItem::slab),
                 field("offset", &SpillItem::offset), field("size_bytes", &SpillItem::size_bytes));
  }
  friend bool operator==(const SpillItem&, const SpillItem&) = default;
};

// Writes the items one after another into a new file. SpillFinished reports the result.
struct StartSpill {
  std::uint64_t file = 0;
  std::vector<SpillItem> items;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("file", &StartSpill::file), field("items", &StartSpill::items));
  }
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
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(
        field("restore", &StartRestore::restore), field("object", &StartRestore::object),
        field("file", &StartRestore::file), field("file_offset", &StartRestore::file_offset),
        field("size_bytes", &StartRestore::size_bytes), field("checksum", &StartRestore::checksum),
        field("slab", &StartRestore::slab), field("offset", &StartRestore::offset));
  }
  friend bool operator==(const StartRestore&, const StartRestore&) = default;
};

struct DropSpillFile {
  std::uint64_t file = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("file", &DropSpillFile::file));
  }
  friend bool operator==(const DropSpillFile&, const DropSpillFile&) = default;
};

// ---- events -------------------------------------------------------------------------------------

struct SpilledItem {
  std::uint64_t file_offset = 0;
  Hash128 checksum;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("file_offset", &SpilledItem::file_offset),
                 field("checksum", &SpilledItem::checksum));
  }
  friend bool operator==(const SpilledItem&, const SpilledItem&) = default;
};

// All items of a StartSpill are written, in its order; after a failure, no item and no file exists.
struct SpillFinished {
  std::uint64_t file = 0;
  std::vector<SpilledItem> items;
  std::optional<Failure> failure;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("file", &SpillFinished::file), field("items", &SpillFinished::items),
                 field("failure", &SpillFinished::failure));
  }
  friend bool operator==(const SpillFinished&, const SpillFinished&) = default;
};

// The failure `corrupt` means that the file no longer contains the object.
struct RestoreFinished {
  std::uint64_t restore = 0;
  std::optional<Failure> failure;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("restore", &RestoreFinished::restore),
                 field("failure", &RestoreFinished::failure));
  }
  friend bool operator==(const RestoreFinished&, const RestoreFinished&) = default;
};

}  // namespace mobula::internal::worker
