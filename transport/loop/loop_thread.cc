#include "transport/loop/loop_thread.h"

#include <future>

#include "base/mutex.h"
#include "base/thread_start.h"

namespace mobula::internal {

Result<std::unique_ptr<LoopThread>> LoopThread::start(EventLoopOptions options) {
  auto loop = EventLoop::create(options);
  if (!loop) return loop.error();
  std::unique_ptr<LoopThread> made(new LoopThread(std::move(loop).value()));
  auto thread = start_thread("mobula-loop", [self = made.get()] { self->serve(); });
  if (!thread) return thread.error();
  made->thread_ = std::move(thread).value();
  return made;
}

LoopThread::~LoopThread() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    MOBULA_CHECK(holder_.load() != Holder::borrower, "a loop ends while a thread turns it");
    ending_ = true;
    changed_.notify_all();
  }
  loop_->stop();
  thread_.join();
}

Result<void> LoopThread::run(const std::function<void()>& task) {
  MOBULA_CHECK(std::this_thread::get_id() != thread_.get_id(), "a loop cannot wait for itself");
  // Shared, because the loop may still be inside set_value() when the wait ends.
  const auto done = std::make_shared<std::promise<void>>();
  if (const auto posted = loop_->post([&task, done] {
        task();
        done->set_value();
      });
      !posted) {
    return posted.error();
  }
  call_back();
  done->get_future().wait();
  return {};
}

void LoopThread::serve() {
  MutexLock lock(mutex_);
  while (!ending_) {
    lock.unlock();
    loop_->run();
    lock.lock();
    if (ending_ || !std::exchange(release_requested_, false)) continue;
    holder_ = Holder::nobody;
    called_back_ = false;
    lock.unlock();
    if (borrowing_.let_go) borrowing_.let_go();
    lock.lock();
    if (!stand_by(lock)) return;
    lock.unlock();
    if (borrowing_.back) borrowing_.back();
    lock.lock();
  }
}

// Waits until the loop was unowned for `unturned`. Returns false at the end. A borrower that keeps
// the loop for long is not polled: give_back() wakes this thread.
bool LoopThread::stand_by(MutexLock& lock) {
  const auto span = std::chrono::nanoseconds(unturned);
  while (!ending_) {
    const std::uint64_t seen = borrowed_;
    if (sleeps_deep_) {
      while (!ending_ && sleeps_deep_) changed_.wait(lock);
    } else {
      const auto until = std::chrono::steady_clock::now() + span;
      while (!ending_ && !called_back_ && changed_.wait_until(lock, until)) {
      }
    }
    const bool as_before = borrowed_ == seen;
    const bool nobody = holder_.load() == Holder::nobody;
    if (nobody && (as_before || called_back_)) {
      holder_ = Holder::own;
      return !ending_;
    }
    called_back_ = false;
    sleeps_deep_ = !nobody && as_before;
  }
  return false;
}

bool LoopThread::borrow() {
  const MutexLock lock(mutex_);
  if (holder_.load() == Holder::nobody && !ending_) {
    holder_ = Holder::borrower;
    ++borrowed_;
    return true;
  }
  if (holder_.load() == Holder::own && !std::exchange(release_requested_, true)) loop_->stop();
  return false;
}

void LoopThread::give_back() {
  const MutexLock lock(mutex_);
  holder_ = Holder::nobody;
  if (!std::exchange(sleeps_deep_, false)) return;
  ++borrowed_;  // the borrow ended just now
  changed_.notify_all();
}

void LoopThread::call_back() {
  const MutexLock lock(mutex_);
  if (holder_.load() != Holder::nobody) return;
  called_back_ = true;
  changed_.notify_all();
}

}  // namespace mobula::internal
