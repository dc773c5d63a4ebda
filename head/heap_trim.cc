#include "head/heap_trim.h"

#include <malloc.h>

#include <algorithm>

namespace mobula::internal::head {
namespace {

constexpr Duration interval = 10s;
constexpr std::size_t worth_bytes = std::size_t{32} << 20;

}  // namespace

void HeapTrim::maybe(Time now) {
  if (now < next_) return;
  next_ = now + interval;
  const std::size_t unused = mallinfo2().fordblks;
  unused_bytes_ = std::min(unused_bytes_, unused);
  if (unused - unused_bytes_ < worth_bytes) return;
  malloc_trim(0);
  unused_bytes_ = unused;
}

}  // namespace mobula::internal::head
