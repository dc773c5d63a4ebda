// Takes the pages of shared memory from the machine ahead of the thread that writes them. A first touch
// costs several times a copy, so a large value is written from its begin while a thread takes its pages
// from its end: they meet where there is nothing left to take. Only while the machine has a core to
// spare, and only of what is being written and a little behind it.
//
// Any thread, one at a time; the thread of its own starts with the first large value.
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

// As the kernel says it of this moment.
bool a_core_is_idle();

class FreshPages {
 public:
  // `idle`: whether one more thread that runs would take no core from others.
  explicit FreshPages(bool (*idle)() = a_core_is_idle) : idle_(idle) {}
  // Waits for the pages that are just being taken: some milliseconds.
  ~FreshPages();
  FreshPages(const FreshPages&) = delete;
  FreshPages& operator=(const FreshPages&) = delete;

  // These bytes of the slab are written next. Takes the pages that nobody has used before, of what is
  // so small that it is written sooner none.
  void will_write(const WritableSlab& slab, std::uint64_t offset, std::uint64_t size_bytes);
  // Until nothing is left to do.
  void finish();

 private:
  struct Work {
    std::shared_ptr<const SlabPages> pages;  // shared: they may be let go of meanwhile
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  void enqueue(const WritableSlab& slab, std::uint64_t begin, std::uint64_t end);
  void run();

  bool (*const idle_)();

  // The callers'.
  std::map<std::weak_ptr<const SlabPages>, std::uint64_t, std::owner_less<>> used_;  // up to there
  std::thread thread_;
  bool refused_ = false;  // there can be no thread

  Mutex mutex_;
  CondVar changed_;
  std::deque<Work> work_ MOBULA_GUARDED_BY(mutex_);
  bool busy_ MOBULA_GUARDED_BY(mutex_) = false;
  bool ends_ MOBULA_GUARDED_BY(mutex_) = false;
};

}  // namespace mobula::internal
