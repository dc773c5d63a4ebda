// The loop of one thread: file descriptors, one-shot timers and functions posted by other threads.
// One turn reads all input that is ready, then reports itself to the turn observer with the gap
// since the turn before, then fires due timers: nobody is judged silent whose words lie unread.
// Everything is for the loop's thread alone except post(), stop() and wake(). Callbacks must not
// block or throw; they may destroy any watch or timer, their own included, but not the loop.
// It does not own what it watches: a Watch ends before its descriptor is closed.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/recycled.h"
#include "base/result.h"
#include "base/time.h"

namespace mobula::internal {

class EventLoop;

enum class Interest : std::uint8_t { none = 0, read = 1, write = 2, read_write = 3 };

// Errors and hang-ups of a descriptor make it both readable and writable.
struct Readiness {
  bool readable = false;
  bool writable = false;
};

// What a turn saw, told after its input was read and before its timers fire. A gap above
// `peer_gap_limit` means that this process was stopped or blocked: its peers were not silent, it
// was deaf, so deadlines that judge peers are to be shifted by the gap.
struct Turn {
  Time now;
  Duration gap{0};
};
inline constexpr Duration peer_gap_limit = 500ms;

// A registered descriptor; unregisters when destroyed. Must not outlive the loop.
class Watch {
 public:
  Watch() = default;
  Watch(Watch&& other) noexcept;
  Watch& operator=(Watch&& other) noexcept;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { reset(); }

  void reset();
  explicit operator bool() const { return loop_ != nullptr; }
  void set_interest(Interest interest);
  // Calls the callback once more as readable before deadlines are looked at, whatever the kernel
  // says: for sources with input of their own behind an edge-triggered descriptor.
  void mark_ready();

 private:
  friend class EventLoop;
  Watch(EventLoop* loop, std::uint64_t id) : loop_(loop), id_(id) {}
  EventLoop* loop_ = nullptr;
  std::uint64_t id_ = 0;
};

// A one-shot timer that can be armed again, also by its own callback. Must not outlive the loop.
class Timer {
 public:
  Timer(EventLoop& loop, std::function<void()> callback);
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { disarm(); }

  // Replaces the time set before. A time in the past fires in the next timer phase.
  void arm(Time when);
  void disarm();
  bool armed() const { return armed_; }

 private:
  friend class EventLoop;
  EventLoop& loop_;
  // Shared with the loop while it runs, so that a callback may destroy its timer.
  std::shared_ptr<const std::function<void()>> callback_;
  std::pair<Time, std::uint64_t> key_;
  bool armed_ = false;
};

struct EventLoopOptions {
  std::size_t max_posted = 65'536;  // functions waiting; post() fails beyond
  // While a timer is armed no wait is longer, so that a stop of the process shows as a gap.
  Duration longest_wait = 250ms;
  // A source that always has input holds timers off for at most so many rounds of reading.
  int max_rounds = 16;
};

class EventLoop {
 public:
  using FdCallback = std::function<void(Readiness)>;
  using Task = std::function<void()>;

  // Fails with resource_exhausted when descriptors are.
  static Result<std::unique_ptr<EventLoop>> create(EventLoopOptions options = {});
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Calls `callback` whenever `fd` is ready (level-triggered). Fails with already_exists for a
  // descriptor that is watched, and with invalid_argument for one that epoll refuses.
  Result<Watch> watch(int fd, Interest interest, FdCallback callback);
  // Called once per turn, between input and timers; an empty function removes it.
  void set_turn_observer(std::function<void(const Turn&)> observer);

  // Turns until stop(). May be called again afterwards.
  void run();
  // One turn that waits at most `max_wait` for something to do.
  void turn(Duration max_wait);
  // The last turn as its observer saw it.
  const Turn& last_turn() const { return turn_; }

  // Any thread. Runs `task` on the loop's thread, in order per caller. Fails with
  // resource_exhausted when max_posted wait; the task is then untouched. Tasks that wait when the
  // loop is destroyed are destroyed with it, unrun.
  Result<void> post(Task task);
  // Any thread, and signal handlers. Ends run() after the turn in progress; sticky until it did.
  void stop();
  // Any thread, and signal handlers. Makes a turn begin now.
  void wake();

 private:
  friend class Watch;
  friend class Timer;
  struct Source {
    int fd = -1;
    Interest interest = Interest::none;
    bool marked = false;
    bool polled = false;  // is in the epoll set
    FdCallback callback;
  };

  explicit EventLoop(EventLoopOptions options) : options_(options) {}
  Duration wait_before(Duration max_wait) const;
  bool read_round(Duration wait);
  void run_marked();
  void run_posted();
  void fire_timers(Time now);
  void call(std::uint64_t id, Readiness readiness);
  void set_interest(std::uint64_t id, Interest interest);
  void mark(std::uint64_t id);
  void remove(std::uint64_t id);

  const EventLoopOptions options_;
  Fd epoll_;
  Fd wake_;

  // The loop's thread.
  std::uint64_t next_id_ = 1;  // 0 is the wake descriptor
  // A source is shared with the call in progress, so that a callback may end its own watch.
  std::unordered_map<std::uint64_t, std::shared_ptr<Source>> sources_;
  std::unordered_map<int, std::uint64_t> id_of_fd_;
  std::vector<std::uint64_t> marked_;
  std::vector<epoll_event> events_;
  using Arming = std::pair<Time, std::uint64_t>;
  std::map<Arming, Timer*, std::less<Arming>, Recycled<std::pair<const Arming, Timer*>>> timers_;
  static constexpr std::size_t most_kept = 1024;
  std::vector<Task> run_;  // empty; kept for its memory
  std::uint64_t next_arming_ = 1;
  std::shared_ptr<const std::function<void(const Turn&)>> observer_;
  Turn turn_;
  Time turn_began_;

  // Any thread.
  std::atomic<bool> stop_{false};
  Mutex mutex_;
  std::vector<Task> posted_ MOBULA_GUARDED_BY(mutex_);
};

}  // namespace mobula::internal
