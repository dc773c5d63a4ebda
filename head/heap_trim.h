// Returns unused heap memory to the system after the tables of the head have shrunk: the allocator
// keeps the pages of freed rows that are scattered between live ones.
// Thread: owner.
#pragma once

#include <cstddef>

#include "base/time.h"

namespace mobula::internal::head {

class HeapTrim {
 public:
  // Called regularly. Trims at most every 10 s, and only if at least 32 MiB were freed since the
  // previous trim. A trim takes some milliseconds for 100 MiB.
  void maybe(Time now);

 private:
  Time next_;
  std::size_t unused_bytes_ = 0;  // after the last trim
};

}  // namespace mobula::internal::head
