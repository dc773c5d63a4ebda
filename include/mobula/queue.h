// `Queue<T>`: a bounded queue, first in, first out, which is an actor. Copies and all processes to
// which it is passed share one queue.
// Thread: any, one call at a time per copy.
// Errors: `QueueFullError` and `QueueEmptyError` after the timeout; `ActorDiedError` after
// shutdown(); `GetTimeoutError` if the actor sends no reply. After `InterruptedError` of `get`, the
// next `get` of this object returns the item that was on its way; an interrupted `put` may have
// stored its item.
// Not: order between producers or consumers that wait; items whose consumer died in `get`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mobula/actor.h>
#include <mobula/errors.h>
#include <mobula/get.h>
#include <mobula/on_ready.h>
#include <mobula/serialize.h>

namespace mobula {

// The queue has no space for the items.
class MOBULA_API QueueFullError : public Error {
 public:
  using Error::Error;
};
// The queue has too few items.
class MOBULA_API QueueEmptyError : public Error {
 public:
  using Error::Error;
};

// Options of a queue.
struct QueueOptions {
  std::size_t maxsize = 0;  // most items; 0: unlimited
  ActorOptions actor = {};  // options of its actor; its max_concurrency is not used
};

namespace detail {

// Calls of a queue that wait in its actor, and threads for the calls that do not wait. Calls beyond
// the limits repeat their request.
inline constexpr int max_waiting_gets = 8;
inline constexpr int max_waiting_puts = 8;
inline constexpr int queue_threads = max_waiting_gets + max_waiting_puts + 4;

// A mutex with a condition. Thread: any.
class MOBULA_API QueueLock {
 public:
  QueueLock();
  ~QueueLock();
  void lock();
  void unlock();
  // Releases the lock and waits for a change until the deadline. False after it.
  bool wait(const Deadline& deadline);
  void notify_all();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Longest wait of one request in the actor, so that dead callers free their places.
MOBULA_API Duration queue_slice(const Deadline& deadline);
// Time for the reply of the actor: 5 s beyond the deadline, or none without a positive timeout.
MOBULA_API std::optional<Duration> queue_reply_timeout(const Deadline& deadline);
// Waits before a request is repeated. Longer with each attempt.
MOBULA_API void queue_pause(const Deadline& deadline, int attempt);
MOBULA_API ActorOptions queue_actor_options(ActorOptions options);
[[noreturn]] MOBULA_API void throw_queue_full(std::size_t given, std::size_t maxsize);
[[noreturn]] MOBULA_API void throw_queue_empty(std::size_t wanted);

enum class QueueState : std::uint8_t {
  done,     // the items were moved
  not_now,  // no space, or too few items
  busy,     // too many calls wait; repeat the request
};

template <class T>
struct QueueItems {
  QueueState state = QueueState::done;
  std::vector<T> items = {};
};

// The actor.
template <class T>
class QueueActor {
 public:
  explicit QueueActor(std::uint64_t maxsize) : maxsize_(maxsize) {}

  // Stores all items together.
  QueueState put(std::vector<T> items, Duration wait) {
    const Held held(lock_);
    const std::size_t count = items.size();
    const auto fits = [&] { return maxsize_ == 0 || items_.size() + count <= maxsize_; };
    const QueueState state = wait_until(fits, wait, waiting_puts_, max_waiting_puts);
    if (state != QueueState::done) return state;
    for (T& each : items) items_.push_back(std::move(each));
    lock_.notify_all();
    return state;
  }
  // Removes `count` items together.
  QueueItems<T> get(std::uint64_t count, Duration wait) {
    const Held held(lock_);
    const auto has_all = [&] { return items_.size() >= count; };
    QueueItems<T> taken{wait_until(has_all, wait, waiting_gets_, max_waiting_gets), {}};
    if (taken.state != QueueState::done) return taken;
    for (; taken.items.size() < count; items_.pop_front())
      taken.items.push_back(std::move(items_.front()));
    lock_.notify_all();
    return taken;
  }
  std::uint64_t size() {
    const Held held(lock_);
    return items_.size();
  }
  std::uint64_t maxsize() const { return maxsize_; }

 private:
  struct Held {
    explicit Held(QueueLock& lock) : lock_(lock) { lock_.lock(); }
    ~Held() { lock_.unlock(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    QueueLock& lock_;
  };

  template <class Ready>
  QueueState wait_until(const Ready& ready, Duration wait, int& waiting, int max_waiting) {
    if (ready()) return QueueState::done;
    if (wait == Duration::zero()) return QueueState::not_now;
    if (waiting == max_waiting) return QueueState::busy;
    ++waiting;
    const Deadline until = deadline_after(wait);
    while (!ready() && lock_.wait(until)) continue;
    --waiting;
    return ready() ? QueueState::done : QueueState::not_now;
  }

  const std::uint64_t maxsize_;
  QueueLock lock_;
  std::deque<T> items_;
  int waiting_puts_ = 0, waiting_gets_ = 0;
};

}  // namespace detail

// A queue of values of type T.
template <class T>
class Queue {
 public:
  // Creates a queue. With `actor.name` and `actor.get_if_exists`, uses the queue of this name.
  explicit Queue(const QueueOptions& options = {})
      : actor_(mobula::actor<Store>.options(detail::queue_actor_options(options.actor))
                   .remote(std::uint64_t{options.maxsize})) {}
  // Creates another handle of an existing queue.
  explicit Queue(ActorHandle<detail::QueueActor<T>> actor) : actor_(std::move(actor)) {}

  // Adds an item. Waits for space, at most `timeout`.
  void put(T item, std::optional<Duration> timeout = {}) {
    if (!try_put(std::move(item), timeout)) full(1);
  }
  // The same, and returns whether the item was added.
  bool try_put(T item, std::optional<Duration> timeout = Duration::zero()) {
    std::vector<T> items;
    items.push_back(std::move(item));
    return add(items, timeout);
  }
  // Adds an item if there is space now.
  void put_nowait(T item) { put(std::move(item), Duration::zero()); }
  // Adds all items together, in order, if there is space now.
  void put_nowait_batch(const std::vector<T>& items) {
    if (!add(items, Duration::zero())) full(items.size());
  }

  // Removes the oldest item. Waits for one, at most `timeout`.
  T get(std::optional<Duration> timeout = {}) {
    auto item = try_get(timeout);
    if (!item) detail::throw_queue_empty(1);
    return *std::move(item);
  }
  // The same, and returns an empty optional after the timeout.
  std::optional<T> try_get(std::optional<Duration> timeout = Duration::zero()) {
    auto items = remove(1, timeout);
    if (items.empty()) return std::nullopt;
    return std::move(items.front());
  }
  // Removes the oldest item if there is one now.
  T get_nowait() { return get(Duration::zero()); }
  // Removes `count` items together if there are that many now.
  std::vector<T> get_nowait_batch(std::size_t count) {
    if (count == 0) return {};
    auto items = remove(count, Duration::zero());
    if (items.empty()) detail::throw_queue_empty(count);
    return items;
  }

  // Returns the number of items.
  std::size_t size() const { return mobula::get(actor_.template call<&Store::size>()); }
  // Reports whether the queue has no item.
  bool empty() const { return size() == 0; }
  // Reports whether the queue has no space.
  bool full() const {
    const std::size_t most = maxsize();
    return most > 0 && size() >= most;
  }
  // Returns the most items of the queue; 0: unlimited.
  std::size_t maxsize() const { return mobula::get(actor_.template call<&Store::maxsize>()); }
  // Ends the actor, with the items. Calls that wait throw `ActorDiedError`.
  void shutdown() { kill(actor_); }
  // Returns the actor, for other programs and for options of `kill`.
  const ActorHandle<detail::QueueActor<T>>& actor() const { return actor_; }

 private:
  using Store = detail::QueueActor<T>;

  [[noreturn]] void full(std::size_t count) const { detail::throw_queue_full(count, maxsize()); }

  bool add(const std::vector<T>& items, std::optional<Duration> timeout) {
    const detail::Deadline deadline = detail::deadline_after(timeout);
    for (int attempt = 0;; ++attempt) {
      const Duration wait = detail::queue_slice(deadline);
      const auto state = reply_of(actor_.template call<&Store::put>(items, wait), deadline);
      if (state == detail::QueueState::done) return true;
      if (wait == Duration::zero()) return false;
      if (state == detail::QueueState::busy) detail::queue_pause(deadline, attempt);
    }
  }

  // Empty after the timeout.
  std::vector<T> remove(std::size_t count, std::optional<Duration> timeout) {
    const detail::Deadline deadline = detail::deadline_after(timeout);
    std::vector<T>& items = arrived_.items;
    for (int attempt = 0; items.size() < count; ++attempt) {
      const Duration wait = detail::queue_slice(deadline);
      if (arrived_.reply.empty()) {
        const std::uint64_t missing = count - items.size();
        arrived_.reply = actor_.template call<&Store::get>(missing, wait);
      }
      auto reply = reply_of(arrived_.reply, deadline);
      arrived_.reply = {};
      for (T& each : reply.items) items.push_back(std::move(each));
      if (items.size() >= count) break;
      if (wait == Duration::zero()) return {};
      if (reply.state == detail::QueueState::busy) detail::queue_pause(deadline, attempt);
    }
    const auto end = items.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<T> taken(std::make_move_iterator(items.begin()), std::make_move_iterator(end));
    items.erase(items.begin(), end);
    return taken;
  }

  template <class R>
  static R reply_of(const ObjectRef<R>& reply, const detail::Deadline& deadline) {
    return mobula::get(reply, {.timeout = detail::queue_reply_timeout(deadline)});
  }

  // Items that were removed from the queue for an interrupted call. Copies do not have them.
  struct Arrived {
    Arrived() = default;
    Arrived(const Arrived&) {}
    Arrived& operator=(const Arrived&) { return *this; }
    Arrived(Arrived&&) noexcept = default;
    Arrived& operator=(Arrived&&) noexcept = default;
    ObjectRef<detail::QueueItems<T>> reply = {};
    std::vector<T> items = {};
  };

  ActorHandle<Store> actor_;
  Arrived arrived_;
};

// Passes the handle of the queue.
template <class T>
struct Serializer<Queue<T>> {
  // Writes the handle.
  static void write(Writer& out, const Queue<T>& queue) { out.write(queue.actor()); }
  // Reads the handle.
  static Queue<T> read(Reader& in) {
    return Queue<T>(in.read<ActorHandle<detail::QueueActor<T>>>());
  }
};

}  // namespace mobula
