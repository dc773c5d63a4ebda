#include <mobula/as_completed.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include <mobula/detail/request.h>
#include <mobula/errors.h>

namespace mobula::detail {

struct CompletionFeed::State {
  explicit State(const AsCompletedOptions& options)
      : deadline(deadline_after(options.timeout)), queue({.fetch_local = options.fetch_local}) {}

  const Deadline deadline;
  CompletionQueue queue;
  std::array<std::uint64_t, 64> ready{};
  std::size_t next = 0, count = 0;  // part of `ready` that was not returned yet
  std::size_t total = 0;
};

CompletionFeed::CompletionFeed(std::span<const AnyRef> refs, const AsCompletedOptions& options)
    : state_(std::make_unique<State>(options)) {
  for (const AnyRef& each : refs) state_->queue.add(each, state_->total++);
}

CompletionFeed::CompletionFeed(CompletionFeed&&) noexcept = default;
CompletionFeed& CompletionFeed::operator=(CompletionFeed&&) noexcept = default;
CompletionFeed::~CompletionFeed() = default;

std::optional<std::size_t> CompletionFeed::next() {
  State& own = *state_;
  if (own.next == own.count) {
    const std::size_t pending = own.queue.outstanding();
    if (pending == 0) return std::nullopt;
    Duration left = Duration::max();
    if (own.deadline) {
      left = std::max(Duration::zero(), Duration(*own.deadline - std::chrono::steady_clock::now()));
    }
    own.next = own.count = 0;  // first, because take may throw
    own.count = own.queue.take(own.ready, left);
    if (own.count == 0) {
      throw GetTimeoutError("as_completed: timed out: " + std::to_string(pending) + " of " +
                            std::to_string(own.total) + " refs are pending");
    }
  }
  return static_cast<std::size_t>(own.ready[own.next++]);
}

}  // namespace mobula::detail
