// Results that an executor still holds after its calls: tensor elements in its memory that other
// processes refer to. Its slot is then resident: it stays allocated, prefers the readers of the
// results, and is evacuated when its capacity is needed.
// Thread: owner (plain value).
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "base/id.h"

namespace mobula::internal {

struct ResidentResults {
  std::int64_t results = 0;  // number of results; 0: the slot is not resident
  std::int64_t bytes = 0;    // total size
  ObjectId oldest;           // the longest-held one
  MOBULA_FIELDS(results, bytes, oldest);
  friend bool operator==(const ResidentResults&, const ResidentResults&) = default;

  bool any() const { return results > 0; }
};

}  // namespace mobula::internal
