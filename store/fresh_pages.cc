#include "store/fresh_pages.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "base/mutex.h"

namespace mobula::internal {
namespace {

// Available since Linux 5.14; older C libraries lack the name.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

constexpr std::uint64_t least_fresh_bytes = std::uint64_t{2} << 20;
// Bytes between two checks for an idle core.
constexpr std::uint64_t take_at_once_bytes = std::uint64_t{4} << 20;
// Limit of the range after the current value, for the next objects of the slab.
constexpr std::uint64_t ahead_bytes = std::uint64_t{16} << 20;
constexpr std::size_t max_fresh_work = 8;
constexpr std::uint64_t small_page_bytes = 4096;

// Returns false if the kernel lacks the call or memory.
bool take_pages(std::span<std::byte> pages) {
  return ::madvise(pages.data(), pages.size(), MADV_POPULATE_WRITE) == 0;
}

}  // namespace

// The fourth field of /proc/loadavg has the number of runnable threads, before a slash and the
// total.
bool a_core_is_idle() {
  std::ifstream file("/proc/loadavg");
  std::string skipped;
  unsigned running = 0;
  file >> skipped >> skipped >> skipped >> running;
  return file && running <= std::thread::hardware_concurrency();
}

FreshPages::~FreshPages() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    work_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void FreshPages::will_write(const WritableSlab& slab, std::uint64_t offset,
                            std::uint64_t size_bytes) {
  std::erase_if(used_, [](const auto& each) { return each.first.expired(); });
  std::uint64_t& used = used_[slab.pages()];
  const std::uint64_t end = offset + size_bytes;
  const std::uint64_t begin = std::max(offset, used);
  if (end <= begin) return;  // already used
  const std::uint64_t behind = std::min(slab.size_bytes(), end + std::min(ahead_bytes, size_bytes));
  used = behind;
  // The range that is written first is populated first.
  if (end - begin >= least_fresh_bytes) enqueue(slab, begin, end);
  if (behind > end) enqueue(slab, end, behind);
}

void FreshPages::enqueue(const WritableSlab& slab, std::uint64_t begin, std::uint64_t end) {
  if (refused_) return;
  {
    const MutexLock lock(mutex_);
    if (work_.size() >= max_fresh_work) return;
    const std::uint64_t first =
        (begin + small_page_bytes - 1) / small_page_bytes * small_page_bytes;
    work_.push_back({slab.pages(), first, end});
  }
  changed_.notify_all();
  if (thread_.joinable()) return;
  // Signals are handled by the user's threads.
  sigset_t all{}, before{};
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
    ::pthread_setname_np(thread_.native_handle(), "mobula-pages");
  } catch (const std::system_error&) {
    refused_ = true;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void FreshPages::finish() {
  MutexLock lock(mutex_);
  while (!refused_ && (!work_.empty() || busy_)) changed_.wait(lock);
}

void FreshPages::run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (!ends_ && work_.empty()) changed_.wait(lock);
    if (ends_) return;
    Work work = std::move(work_.front());
    work_.pop_front();
    busy_ = true;
    while (!ends_ && work.begin < work.end) {
      // From the end, because the writer comes from the start.
      const std::uint64_t from = work.end - std::min(take_at_once_bytes, work.end - work.begin);
      const std::uint64_t page = from / small_page_bytes * small_page_bytes;
      lock.unlock();
      const bool taken = idle_() && take_pages(work.pages->bytes().subspan(page, work.end - page));
      lock.lock();
      work.end = taken ? page : work.begin;
    }
    work.pages.reset();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace mobula::internal
