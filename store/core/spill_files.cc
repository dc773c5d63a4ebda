#include "store/core/spill_files.h"

#include "base/check.h"

namespace mobula::internal {

void SpillFiles::add(ObjectId object, const SpilledPlace& place) {
  MOBULA_CHECK(!objects_.contains(object), "an object is in two files");
  objects_.insert(object, place);
  sizes_.insert(place.size_bytes);
  File& file = files_[place.file];
  ++file.objects;
  file.size_bytes += place.size_bytes;
  file_bytes_ += place.size_bytes;
}

std::optional<SpillFileId> SpillFiles::drop(ObjectId object) {
  const SpilledPlace* place = objects_.find(object);
  if (place == nullptr) return std::nullopt;
  const SpillFileId id = place->file;
  sizes_.erase(sizes_.find(place->size_bytes));
  objects_.erase(object);
  File& file = files_.at(id);
  if (--file.objects > 0) return std::nullopt;
  file_bytes_ -= file.size_bytes;
  files_.erase(id);
  return id;
}

}  // namespace mobula::internal
