// Which files of spilled objects a node has, and which object lies where in them. Pure: numbers and
// sizes; bytes and names of files are the shell's. Part of the agent's core; not thread-safe.
//
// Many objects lie in one file, which is written once and never changed: it goes when none of them
// is needed any more. What died earlier stays in it until then, and counts.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "base/hash.h"
#include "base/id.h"
#include "base/table.h"

namespace mobula::internal {

using SpillFileId = std::uint64_t;  // 0: none; never given again by one incarnation

struct SpilledPlace {
  SpillFileId file = 0;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
  Hash128 checksum;  // as the shell has computed it; nothing here looks at it

  friend bool operator==(const SpilledPlace&, const SpilledPlace&) = default;
};

class SpillFiles {
 public:
  SpillFileId new_file() { return ++last_; }
  // The object must not be in another file.
  void add(ObjectId object, const SpilledPlace& place);
  // The object's copy is not needed any more. The file that is to be removed then, or nothing.
  std::optional<SpillFileId> drop(ObjectId object);

  const SpilledPlace* find(ObjectId object) const { return objects_.find(object); }
  std::size_t files() const { return files_.size(); }
  std::size_t objects() const { return objects_.size(); }
  // Of the largest object; 0 if there is none.
  std::uint64_t largest_bytes() const { return sizes_.empty() ? 0 : *sizes_.rbegin(); }
  // Of all files, with what is dead in them.
  std::uint64_t file_bytes() const { return file_bytes_; }

 private:
  struct File {
    std::uint64_t objects = 0;
    std::uint64_t size_bytes = 0;
  };

  Table<SpillFileId, File> files_;
  Table<ObjectId, SpilledPlace> objects_;
  std::multiset<std::uint64_t> sizes_;
  std::uint64_t file_bytes_ = 0;
  SpillFileId last_ = 0;
};

}  // namespace mobula::internal
