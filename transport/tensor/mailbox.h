// Mailbox for functions from other threads. If the mailbox of the loop is full, no function is
// lost: it runs at the reader's next call of run().
// Thread: any for push(), otherwise the reader's loop. Not: a limit; the senders bound the number
// of functions.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "transport/loop/event_loop.h"

namespace mobula::internal {

class Mailbox : public std::enable_shared_from_this<Mailbox> {
 public:
  explicit Mailbox(EventLoop& reader) : reader_(reader) {}

  void push(std::function<void()> task) {
    {
      const MutexLock lock(mutex_);
      if (closed_) return;
      tasks_.push_back(std::move(task));
      if (std::exchange(posted_, true)) return;
    }
    // Shared with the posted function, which may run after the owner of the box has ended.
    if (reader_.post([self = shared_from_this()] { self->run(); })) return;
    const MutexLock lock(mutex_);
    posted_ = false;
  }

  // Runs the queued functions, without the lock.
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

  // Drops queued and future functions.
  void close() {
    over_ = true;
    std::vector<std::function<void()>> dropped;  // destroyed without the lock
    const MutexLock lock(mutex_);
    closed_ = true;
    dropped.swap(tasks_);
  }

 private:
  EventLoop& reader_;
  bool over_ = false;  // reader's thread only
  Mutex mutex_;
  bool closed_ MOBULA_GUARDED_BY(mutex_) = false;
  bool posted_ MOBULA_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> tasks_ MOBULA_GUARDED_BY(mutex_);
};

}  // namespace mobula::internal
