// Event loop of one thread: file descriptors, one-shot timers, and functions posted by other
// threads. Each iteration reads all ready input, calls the observer with the gap since the previous
// iteration, and then fires due timers. Therefore no timeout ends a peer whose messages are unread.
// Thread: the loop's thread, except post(), stop(), and wake(). Callbacks must not block or throw.
// Owner: callbacks may destroy any watch or timer, also their own, but not the loop. A Watch ends
// before its descriptor is closed.
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

#include "base/containers/block_pool.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/time.h"

namespace mobula::internal {

class EventLoop;

enum class Interest : std::uint8_t { none = 0, read = 1, write = 2, read_write = 3 };

// Errors and hang-ups make a descriptor both readable and writable.
struct Readiness {
  bool readable = false;
  bool writable = false;
};

// State of one iteration, after its input and before its timers. A gap above `peer_gap_threshold`
// means that this process was stopped or blocked. Deadlines for peers must then be shifted by the
// gap, because the peers were not silent.
struct Turn {
  Time now;
  Duration gap{0};
};
inline constexpr Duration peer_gap_threshold = 500ms;

// A registered descriptor; the destructor unregisters it. Must not outlive the loop.
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
  // Reports the source as readable once more before the timers, regardless of the kernel. For
  // sources with buffered input behind an edge-triggered descriptor.
  void mark_ready();

 private:
  friend class EventLoop;
  Watch(EventLoop* loop, std::uint64_t id) : loop_(loop), id_(id) {}
  EventLoop* loop_ = nullptr;
  std::uint64_t id_ = 0;
};

// A one-shot timer. It can be armed again, also by its own callback. Must not outlive the loop.
class Timer {
 public:
  Timer(EventLoop& loop, std::function<void()> callback);
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { disarm(); }

  // Replaces the earlier time. A time in the past fires in the next timer phase.
  void arm(Time when);
  void disarm();
  bool armed() const { return armed_; }

 private:
  friend class EventLoop;
  EventLoop& loop_;
  // Shared with the loop while the callback runs, so that it may destroy its timer.
  std::shared_ptr<const std::function<void()>> callback_;
  std::pair<Time, std::uint64_t> key_;
  bool armed_ = false;
};

struct EventLoopOptions {
  std::size_t max_posted = 65'536;  // pending functions; post() fails above it
  // Maximum wait while a timer is armed, so that a stop of the process shows as a gap.
  Duration longest_wait = 250ms;
  // Maximum rounds of reading before timers, if a source always has input.
  int max_rounds = 16;
};

class EventLoop {
 public:
  using FdCallback = std::function<void(Readiness)>;
  using Task = std::function<void()>;

  // Errors: resource_exhausted if no descriptor is available.
  static Result<std::unique_ptr<EventLoop>> create(EventLoopOptions options = {});
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Calls `callback` whenever `fd` is ready (level-triggered). Errors: already_exists if `fd` is
  // already watched, invalid_argument if epoll rejects it.
  Result<Watch> watch(int fd, Interest interest, FdCallback callback);
  // Called once per iteration, between input and timers. An empty function removes it.
  void set_turn_observer(std::function<void(const Turn&)> observer);

  // Iterates until stop(). May be called again afterwards.
  void run();
  // Runs one iteration, which waits at most `max_wait` for an event.
  void turn(Duration max_wait);
  // The last iteration, as its observer saw it.
  const Turn& last_turn() const { return turn_; }

  // Thread: any. Runs `task` on the loop's thread, in order per caller. Errors: resource_exhausted
  // if max_posted functions are pending; `task` is then unchanged. The destructor destroys pending
  // tasks without running them.
  Result<void> post(Task task);
  // Thread: any, and signal handlers. Ends run() after the current iteration. Sticky until run()
  // returned.
  void stop();
  // Thread: any, and signal handlers. Starts an iteration now.
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

  // Loop's thread.
  std::uint64_t next_id_ = 1;  // 0 is the wake descriptor
  // Shared with the call in progress, so that a callback may end its own watch.
  std::unordered_map<std::uint64_t, std::shared_ptr<Source>> sources_;
  std::unordered_map<int, std::uint64_t> id_of_fd_;
  std::vector<std::uint64_t> marked_;
  std::vector<epoll_event> events_;
  using Arming = std::pair<Time, std::uint64_t>;
  std::map<Arming, Timer*, std::less<Arming>, Recycled<std::pair<const Arming, Timer*>>> timers_;
  static constexpr std::size_t most_kept = 1024;
  std::vector<Task> run_;  // empty; keeps its memory
  std::uint64_t next_arming_ = 1;
  // Shared with the call in progress.
  std::shared_ptr<const std::function<void(const Turn&)>> observer_;
  Turn turn_;
  Time turn_began_;

  // Any thread.
  std::atomic<bool> stop_{false};
  Mutex mutex_;
  std::vector<Task> posted_ MOBULA_GUARDED_BY(mutex_);
};

}  // namespace mobula::internal
