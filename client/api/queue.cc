#include <mobula/queue.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include "base/mutex.h"

namespace mobula::detail {
namespace {

constexpr std::chrono::seconds longest_slice{1};
constexpr std::chrono::seconds reply_grace{5};
constexpr std::chrono::milliseconds first_pause{5};
constexpr int longest_pause_at = 4;  // doublings of `first_pause`

Duration left_until(const Deadline& deadline) {
  if (!deadline) return Duration::max();
  return std::max(Duration::zero(), Duration(*deadline - std::chrono::steady_clock::now()));
}

}  // namespace

// Guards state of user code, which the analysis of locks cannot see.
struct QueueLock::State {
  internal::Mutex mutex;
  internal::CondVar changed;
  internal::MovableLock held;  // taken by lock()
};

QueueLock::QueueLock() : state_(std::make_unique<State>()) {}
QueueLock::~QueueLock() = default;

void QueueLock::lock() {
  internal::MovableLock held(state_->mutex);
  state_->held = std::move(held);
}

void QueueLock::unlock() {
  const internal::MovableLock held = std::move(state_->held);  // unlocks at the end
}

bool QueueLock::wait(const Deadline& deadline) {
  internal::MovableLock held = std::move(state_->held);
  bool in_time = true;
  if (deadline) {
    in_time = state_->changed.wait_until(held, *deadline);
  } else {
    state_->changed.wait(held);
  }
  state_->held = std::move(held);
  return in_time;
}

void QueueLock::notify_all() { state_->changed.notify_all(); }

Duration queue_slice(const Deadline& deadline) {
  return std::min<Duration>(left_until(deadline), longest_slice);
}

std::optional<Duration> queue_reply_timeout(const Deadline& deadline) {
  const Duration left = left_until(deadline);
  if (!deadline || left == Duration::zero()) return std::nullopt;
  return left + reply_grace;
}

void queue_pause(const Deadline& deadline, int attempt) {
  const Duration pause = first_pause * (1 << std::min(attempt, longest_pause_at));
  std::array<std::uint64_t, 1> none{};
  CompletionQueue idle;  // a wait that an interruption or a cancellation ends
  (void)idle.take(none, std::min(pause, left_until(deadline)));
}

ActorOptions queue_actor_options(ActorOptions options) {
  options.max_concurrency = queue_threads;
  return options;
}

void throw_queue_full(std::size_t given, std::size_t maxsize) {
  throw QueueFullError("put into the queue: no space for " + std::to_string(given) +
                       " items; maxsize is " + std::to_string(maxsize));
}

void throw_queue_empty(std::size_t wanted) {
  throw QueueEmptyError("get from the queue: fewer than " + std::to_string(wanted) + " items");
}

}  // namespace mobula::detail
