// The spill files of a node and the positions of the objects in them. Knows numbers and sizes; the
// shell owns bytes and file names.
// Thread: owner (the agent's core). Units: bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "base/containers/table.h"
#include "base/hash.h"
#include "base/id.h"

namespace mobula::internal {

using SpillFileId = std::uint64_t;  // 0: none; never reused by one incarnation

struct SpillLocation {
  SpillFileId file = 0;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
  Hash128 checksum;  // computed by the shell; not checked here

  friend bool operator==(const SpillLocation&, const SpillLocation&) = default;
};

// One file has many objects. It is written once, never changed, and removed when none of its
// objects is needed. Until then, unneeded objects stay in it and count.
class SpillFiles {
 public:
  SpillFileId new_file() { return ++last_; }
  // The object must not be in another file.
  void add(ObjectId object, const SpillLocation& location);
  // The copy of the object is not needed any more. Returns the file that must then be removed, if
  // any.
  std::optional<SpillFileId> drop(ObjectId object);

  const SpillLocation* find(ObjectId object) const { return objects_.find(object); }
  std::size_t files() const { return files_.size(); }
  std::size_t objects() const { return objects_.size(); }
  // Size of the largest object; 0 without objects.
  std::uint64_t largest_bytes() const { return sizes_.empty() ? 0 : *sizes_.rbegin(); }
  // Total size of all files, including unneeded objects.
  std::uint64_t file_bytes() const { return file_bytes_; }

 private:
  struct File {
    std::uint64_t objects = 0;
    std::uint64_t size_bytes = 0;
  };

  Table<SpillFileId, File> files_;
  Table<ObjectId, SpillLocation> objects_;
  std::multiset<std::uint64_t> sizes_;
  std::uint64_t file_bytes_ = 0;
  SpillFileId last_ = 0;
};

}  // namespace mobula::internal
