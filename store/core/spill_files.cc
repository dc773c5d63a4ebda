#include "store/core/spill_files.h"

#include "base/check.h"

namespace mobula::internal {

void SpillFiles::add(ObjectId object, const SpillLocation& location) {
  MOBULA_CHECK(!objects_.contains(object), "an object is in two files");
  objects_.insert(object, location);
  sizes_.insert(location.size_bytes);
  File& file = files_[location.file];
  ++file.objects;
  file.size_bytes += location.size_bytes;
  file_bytes_ += location.size_bytes;
}

std::optional<SpillFileId> SpillFiles::drop(ObjectId object) {
  const SpillLocation* location = objects_.find(object);
  if (location == nullptr) return std::nullopt;
  const SpillFileId id = location->file;
  sizes_.erase(sizes_.find(location->size_bytes));
  objects_.erase(object);
  File& file = files_.at(id);
  if (--file.objects > 0) return std::nullopt;
  file_bytes_ -= file.size_bytes;
  files_.erase(id);
  return id;
}

}  // namespace mobula::internal
