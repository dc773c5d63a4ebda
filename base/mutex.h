// Mutexes whose use clang checks at compile time (-Wthread-safety). With g++ the annotations are
// empty. A member is declared with the lock that guards it, a private function with the locks that
// it needs.
// Thread: any.
// Not: a lock that is handed from function to function (MovableLock), which the analysis cannot
// follow.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define MOBULA_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define MOBULA_THREAD_ATTRIBUTE(x)
#endif

// On a member: read and written only while the mutex is held; of a pointer: its target.
#define MOBULA_GUARDED_BY(x) MOBULA_THREAD_ATTRIBUTE(guarded_by(x))
#define MOBULA_PT_GUARDED_BY(x) MOBULA_THREAD_ATTRIBUTE(pt_guarded_by(x))
// On a function: the caller holds the mutexes, or must not hold them.
#define MOBULA_REQUIRES(...) MOBULA_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define MOBULA_EXCLUDES(...) MOBULA_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
// On a function whose locking the analysis cannot follow. The reason is in a comment next to it.
#define MOBULA_NO_THREAD_SAFETY_ANALYSIS MOBULA_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace mobula::internal {

class CondVar;
class MovableLock;
class MutexLock;

class MOBULA_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() MOBULA_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void unlock() MOBULA_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class MovableLock;
  friend class MutexLock;

  std::mutex mutex_;
};

// Holds a mutex for a scope. `unlock` and `lock` open a gap in it.
class MOBULA_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) MOBULA_THREAD_ATTRIBUTE(acquire_capability(mutex))
      : lock_(mutex.mutex_) {}
  ~MutexLock() MOBULA_THREAD_ATTRIBUTE(release_capability()) {
  }  // NOLINT: an attribute needs a body
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() MOBULA_THREAD_ATTRIBUTE(release_capability()) { lock_.unlock(); }
  void lock() MOBULA_THREAD_ATTRIBUTE(acquire_capability()) { lock_.lock(); }

 private:
  friend class CondVar;

  std::unique_lock<std::mutex> lock_;
};

// A held mutex that can be returned and passed on. The analysis does not see it.
class MovableLock {
 public:
  MovableLock() = default;
  explicit MovableLock(Mutex& mutex) : lock_(mutex.mutex_) {}

  void unlock() { lock_.unlock(); }
  void lock() { lock_.lock(); }

 private:
  friend class CondVar;

  std::unique_lock<std::mutex> lock_;
};

// Waits for a change of guarded state. A wait can end without a notification, so callers test their
// condition in a loop. Lock is MutexLock or MovableLock; the lock is held again when a wait
// returns.
class CondVar {
 public:
  template <typename Lock>
  void wait(Lock& lock) {
    changed_.wait(lock.lock_);
  }

  // False when the deadline has passed.
  template <typename Lock, typename Clock, typename Duration>
  bool wait_until(Lock& lock, std::chrono::time_point<Clock, Duration> deadline) {
    return changed_.wait_until(lock.lock_, deadline) == std::cv_status::no_timeout;
  }

  // False when the duration has passed.
  template <typename Lock, typename Rep, typename Period>
  bool wait_for(Lock& lock, std::chrono::duration<Rep, Period> duration) {
    return changed_.wait_for(lock.lock_, duration) == std::cv_status::no_timeout;
  }

  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace mobula::internal
