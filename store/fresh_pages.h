// Populates pages of shared memory ahead of the thread that writes them. The first touch of a page
// costs several times a copy. A large value is therefore written from its start while a separate
// thread populates it from its end. It runs only while the machine has an idle core, and covers the
// current value and a limited range after it.
// Thread: any, one at a time. The separate thread starts with the first large value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <thread>

#include "base/mutex.h"
#include "store/slab.h"

namespace mobula::internal {

// True if /proc/loadavg currently shows an idle core.
bool a_core_is_idle();

class FreshPages {
 public:
  // `idle` returns true if a further running thread takes no core from others.
  explicit FreshPages(bool (*idle)() = a_core_is_idle) : idle_(idle) {}
  // Waits for the range in progress: some milliseconds.
  ~FreshPages();
  FreshPages(const FreshPages&) = delete;
  FreshPages& operator=(const FreshPages&) = delete;

  // Announces that these bytes of the slab are written next. Populates the never used pages in
  // them, except in a range that is too small to be worth it.
  void will_write(const WritableSlab& slab, std::uint64_t offset, std::uint64_t size_bytes);
  // Waits until all announced pages are populated or skipped.
  void finish();

 private:
  struct Work {
    std::shared_ptr<const SlabPages> pages;  // shared: the writer may unmap them in the meantime
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  void enqueue(const WritableSlab& slab, std::uint64_t begin, std::uint64_t end);
  void run();

  bool (*const idle_)();

  // Caller's thread.
  // End of the used range, by slab.
  std::map<std::weak_ptr<const SlabPages>, std::uint64_t, std::owner_less<>> used_;
  std::thread thread_;
  bool refused_ = false;  // no thread can be started

  Mutex mutex_;
  CondVar changed_;
  std::deque<Work> work_ MOBULA_GUARDED_BY(mutex_);
  bool busy_ MOBULA_GUARDED_BY(mutex_) = false;
  bool ends_ MOBULA_GUARDED_BY(mutex_) = false;
};

}  // namespace mobula::internal
