// Spilling between the agent's core and its shell: which bytes go to which file and back. Commands
// and the events that answer them. Plain structs. Files have numbers; their names, and the folder
// they lie in, are the shell's. Nothing of them is of use to a later incarnation.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/fields.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/result.h"

namespace mobula::internal::worker {

// ---- commands ----------------------------------------------------------------------------------

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

// Write these bytes into a new file, one after the other. Answered by SpillFinished.
struct StartSpill {
  std::uint64_t file = 0;
  std::vector<SpillItem> items;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("file", &StartSpill::file), field("items", &StartSpill::items));
  }
  friend bool operator==(const StartSpill&, const StartSpill&) = default;
};

// Read an object's bytes back into a slab of the agent's own, and compare their checksum. Answered
// by RestoreFinished.
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
    return visit(field("restore", &StartRestore::restore), field("object", &StartRestore::object),
                 field("file", &StartRestore::file),
                 field("file_offset", &StartRestore::file_offset),
                 field("size_bytes", &StartRestore::size_bytes),
                 field("checksum", &StartRestore::checksum), field("slab", &StartRestore::slab),
                 field("offset", &StartRestore::offset));
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

// ---- events ------------------------------------------------------------------------------------

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

// All items of a StartSpill are written, in its order; or none is, and there is no file.
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

// A failure that is `corrupt` says that the object cannot be had from that file any more.
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
