// Populates fresh memory before bytes are received into it. A huge page costs about 0.1 ms, but
// several milliseconds if the kernel has to compact memory, or if a hypervisor has to provide the
// page. Small pages cost about 0.7 ms per 2 MiB in all cases.
// Thread: owner (one lane).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/time.h"

namespace mobula::internal {

// Chooses huge pages until they are slow, then small pages for a number of bytes.
class HugePageChoice {
 public:
  // Processor time per byte above which small pages are faster: 0.75 ms per 2 MiB.
  static constexpr std::int64_t slow_ns_per_mib = 375'000;
  static constexpr std::uint64_t small_bytes = 512ull << 20;  // until the next attempt

  // Whether the next `bytes` get huge pages.
  bool huge(std::uint64_t bytes);
  // `spent` is the processor time for `bytes` in huge pages.
  void note(Duration spent, std::uint64_t bytes);

 private:
  std::uint64_t small_left_ = 0;
};

class FirstTouch {
 public:
  // Populates the whole pages in `bytes` of a private anonymous mapping with undefined content. On
  // kernels before 5.14, the first write populates them.
  void populate(std::span<std::byte> bytes);

 private:
  HugePageChoice choice_;
};

}  // namespace mobula::internal
