// Functions that one thread leaves for another one's loop. Nothing is lost when the loop's mailbox
// is full: the box is emptied at the latest when its reader looks by itself. push() is for any
// thread, the rest for the reader's; who pushes bounds what lies in it.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "transport/event_loop.h"

namespace mobula::internal {

class TaskBox : public std::enable_shared_from_this<TaskBox> {
 public:
  explicit TaskBox(EventLoop& reader) : reader_(reader) {}

  void push(std::function<void()> task) {
    {
      const MutexLock lock(mutex_);
      if (closed_) return;
      tasks_.push_back(std::move(task));
      if (std::exchange(posted_, true)) return;
    }
    // Shared with what is posted, which may come after the end of the box's owner.
    if (reader_.post([self = shared_from_this()] { self->run(); })) return;
    const MutexLock lock(mutex_);
    posted_ = false;
  }

  // Runs what lies here, unlocked.
  void run() {
    std::vector<std::function<void()>> tasks;
    {
      const MutexLock lock(mutex_);
      tasks.swap(tasks_);
      posted_ = false;
    }
    for (auto& task : tasks) {
      if (over_) return;
      task();
    }
  }

  // Drops what lies here and what comes.
  void close() {
    over_ = true;
    std::vector<std::function<void()>> dropped;  // destroyed without the lock
    const MutexLock lock(mutex_);
    closed_ = true;
    dropped.swap(tasks_);
  }

 private:
  EventLoop& reader_;
  bool over_ = false;  // the reader's
  Mutex mutex_;
  bool closed_ MOBULA_GUARDED_BY(mutex_) = false;
  bool posted_ MOBULA_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> tasks_ MOBULA_GUARDED_BY(mutex_);
};

}  // namespace mobula::internal
