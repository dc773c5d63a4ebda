#include "transport/tensor/first_touch.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>

namespace mobula::internal {
namespace {

constexpr std::uintptr_t small_page = 4096;
constexpr std::uint64_t mib = 1u << 20;
constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, absent from older headers

// Excludes the time of other threads on a loaded machine.
Duration thread_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

bool HugePageChoice::huge(std::uint64_t bytes) {
  if (small_left_ == 0) return true;
  small_left_ -= std::min(small_left_, bytes);
  return false;
}

void HugePageChoice::note(Duration spent, std::uint64_t bytes) {
  const auto limit = std::chrono::nanoseconds(slow_ns_per_mib) * static_cast<int>(bytes / mib);
  if (bytes >= 2 * mib && spent > limit) small_left_ = small_bytes;
}

void FirstTouch::populate(std::span<std::byte> bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = (begin + small_page - 1) / small_page * small_page;
  const std::uintptr_t last = (begin + bytes.size()) / small_page * small_page;
  if (last <= first) return;
  void* const at = bytes.data() + (first - begin);
  const std::size_t size = last - first;
  const bool huge = choice_.huge(size);
  if (!huge) ::madvise(at, size, MADV_NOHUGEPAGE);
  const Duration before = thread_time();
  const bool populated = ::madvise(at, size, populate_write) == 0;
  if (huge && populated) choice_.note(thread_time() - before, size);
}

}  // namespace mobula::internal
