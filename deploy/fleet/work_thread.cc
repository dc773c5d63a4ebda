#include "deploy/fleet/work_thread.h"

#include <utility>

namespace mobula::internal::fleet {

WorkThread::WorkThread() : thread_([this] { serve(); }) {}

WorkThread::~WorkThread() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void WorkThread::run(std::function<void()> work) {
  const MutexLock lock(mutex_);
  work_.push_back(std::move(work));
  changed_.notify_one();
}

void WorkThread::serve() {
  for (;;) {
    std::function<void()> work;
    {
      MutexLock lock(mutex_);
      while (work_.empty() && !ends_) changed_.wait(lock);
      if (ends_) return;
      work = std::move(work_.front());
      work_.pop_front();
    }
    work();
  }
}

}  // namespace mobula::internal::fleet
