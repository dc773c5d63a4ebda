// A pool of actors that serve calls: each actor has one call at a time, further calls wait.
// Thread: owner. Queued calls start inside the functions of the pool, not in the background.
// Errors: `get_next` throws the error of its call; `GetTimeoutError` leaves the call in the pool;
// `InvalidRequestError` if no call is left, or if calls are queued and no actor is left.
// Owner: the pool has handles of its actors. Its end drops queued calls; running calls continue.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobula/actor.h>
#include <mobula/detail/next_range.h>
#include <mobula/errors.h>
#include <mobula/get.h>
#include <mobula/on_ready.h>

namespace mobula {

namespace detail {

// Reports whether the ready ref holds the error of the death of this actor. Reads no value.
MOBULA_API bool holds_death_of(const AnyRef& ready, RawId actor);
// Remaining time until the deadline: at least 0, and Duration::max() without one.
MOBULA_API Duration time_left(const Deadline& deadline);

}  // namespace detail

template <class C, class R>
class PoolResults;

// A pool of actors of class C whose calls return R.
template <class C, class R>
class ActorPool {
 public:
  // Creates a pool. All actors are idle.
  explicit ActorPool(std::vector<ActorHandle<C>> actors) : idle_(std::move(actors)) {}

  // Starts `f(actor, value)`, which returns an ObjectRef<R>, on an idle actor, or queues it.
  template <class F, class V>
  void submit(F f, V value) {
    submit([f = std::move(f), value = std::move(value)](const ActorHandle<C>& actor) {
      return f(actor, value);
    });
  }
  // Starts `f(actor)` in the same way.
  template <class F>
  void submit(F f) {
    const Number number = last_++;
    queued_.emplace_back(number, std::move(f));
    try {
      update(Duration::zero());
    } catch (...) {
      if (!queued_.empty() && queued_.back().first == number) queued_.pop_back();
      throw;
    }
  }

  // Reports whether a call has a result that was not returned yet.
  bool has_next() const { return !queued_.empty() || !results_.empty(); }
  // Returns the result of the oldest call. After the timeout, `ignore_if_timedout` drops the call;
  // its actor stays busy until the call ends.
  R get_next(std::optional<Duration> timeout = {}, bool ignore_if_timedout = false) {
    return result_of([this] { return oldest(); }, timeout, ignore_if_timedout);
  }
  // Returns the result of the call that ended first.
  R get_next_unordered(std::optional<Duration> timeout = {}, bool ignore_if_timedout = false) {
    return result_of([this] { return first_ended(0, last_); }, timeout, ignore_if_timedout);
  }

  // Submits `f(actor, value)` for each value and returns a range of the results in the order of
  // the values. Earlier calls stay in the pool. The pool must outlive the range.
  template <class F, class Values>
  PoolResults<C, R> map(F f, const Values& values) {
    return submit_all(std::move(f), values, true);
  }
  // The same, in the order in which the calls end.
  template <class F, class Values>
  PoolResults<C, R> map_unordered(F f, const Values& values) {
    return submit_all(std::move(f), values, false);
  }

  // Reports whether an actor is idle and no call is queued.
  bool has_free() {
    update(Duration::zero());
    return !idle_.empty() && queued_.empty();
  }
  // Adds an idle actor. `InvalidRequestError` for an actor of the pool.
  void push(ActorHandle<C> actor) {
    const bool is_busy =
        std::ranges::any_of(results_, [&](const auto& each) { return each.second.actor == actor; });
    if (actor.empty() || is_busy || std::ranges::find(idle_, actor) != idle_.end())
      throw InvalidRequestError("push actor " + actor.id() + ": the actor is already in the pool");
    idle_.push_back(std::move(actor));
    update(Duration::zero());
  }
  // Removes an idle actor and returns it. Empty if no actor is free.
  std::optional<ActorHandle<C>> pop_idle() {
    if (!has_free()) return std::nullopt;
    ActorHandle<C> actor = std::move(idle_.back());
    idle_.pop_back();
    return actor;
  }

 private:
  friend class PoolResults<C, R>;
  using Number = std::uint64_t;  // calls in the order of their submission
  static constexpr Number none = ~Number{0};
  struct Started {
    ObjectRef<R> ref = {};
    ActorHandle<C> actor = {};        // empty once the call has ended
    std::exception_ptr failure = {};  // thrown instead of making the ref
    bool ignored = false;             // the result is not wanted
  };

  // Handles ended calls, after a wait of at most `timeout` for the first one, and starts queued
  // calls on idle actors.
  void update(Duration timeout) {
    std::array<std::uint64_t, 64> tokens{};
    std::size_t count = 0;
    do {
      count = running_.take(tokens, timeout);
      for (std::size_t i = 0; i < count; ++i) end(tokens[i]);
      timeout = Duration::zero();
    } while (count == tokens.size());
    while (!queued_.empty() && !idle_.empty()) start();
  }

  void end(Number number) {
    const auto at = results_.find(number);
    ActorHandle<C> actor = std::exchange(at->second.actor, {});
    // A dead actor leaves the pool, so that other calls do not fail with it.
    if (!detail::holds_death_of(at->second.ref, actor.raw_id())) idle_.push_back(std::move(actor));
    if (at->second.ignored) {
      results_.erase(at);
    } else {
      ended_.push_back(number);
    }
  }

  void start() {
    Started started;
    const Number number = queued_.front().first;
    try {
      started.ref = queued_.front().second(idle_.back());
      running_.add(started.ref, number);
      started.actor = std::move(idle_.back());
      idle_.pop_back();
    } catch (const InterruptedError&) {
      throw;  // the call stays in the queue
    } catch (...) {
      started.failure = std::current_exception();
      ended_.push_back(number);
    }
    queued_.pop_front();
    results_.emplace(number, std::move(started));
  }

  Number oldest() const {
    for (const auto& [number, each] : results_) {
      if (!each.ignored) return number;
    }
    return queued_.empty() ? none : queued_.front().first;
  }
  // The first ended call with a number in [first, last), otherwise `none`.
  Number first_ended(Number first, Number last) const {
    const auto at =
        std::ranges::find_if(ended_, [&](Number each) { return each >= first && each < last; });
    return at == ended_.end() ? none : *at;
  }
  bool has_ended(Number number) const {
    const auto at = results_.find(number);
    return at != results_.end() && at->second.actor.empty();
  }

  // `choose` returns the number of the call, or `none`.
  template <class Choose>
  R result_of(const Choose& choose, std::optional<Duration> timeout, bool ignore_if_timedout) {
    const auto deadline = detail::deadline_after(timeout);
    update(Duration::zero());
    while (!has_ended(choose())) {
      require_progress();
      const Duration left = detail::time_left(deadline);
      if (left > Duration::zero()) update(left);
      if (has_ended(choose()) || left > Duration::zero()) continue;
      if (ignore_if_timedout) ignore(oldest());
      throw GetTimeoutError("get_next: timed out: " + std::to_string(running_.outstanding()) +
                            " calls run and " + std::to_string(queued_.size()) + " are queued");
    }
    return take(choose());
  }

  // An interrupted call stays in the pool.
  R take(Number number) {
    const Started ended = results_.at(number);
    try {
      if (ended.failure) std::rethrow_exception(ended.failure);
      if constexpr (std::is_void_v<R>) {
        get(ended.ref);
        return drop(number);
      } else {
        R value = get(ended.ref);
        drop(number);
        return value;
      }
    } catch (const InterruptedError&) {
      throw;
    } catch (...) {
      drop(number);
      throw;
    }
  }
  void drop(Number number) {
    std::erase(ended_, number);
    results_.erase(number);
    ++returned_;
  }

  void require_progress() const {
    if (running_.outstanding() > 0) return;
    if (queued_.empty())
      throw InvalidRequestError("get_next: the pool has no such call; submit one before");
    throw InvalidRequestError("get_next: the pool has no live actor for " +
                              std::to_string(queued_.size()) + " queued calls; push one");
  }

  void ignore(Number number) {
    const auto at = results_.find(number);
    if (at != results_.end()) {
      at->second.ignored = true;
    } else {
      std::erase_if(queued_, [number](const auto& each) { return each.first == number; });
    }
  }

  template <class F, class Values>
  PoolResults<C, R> submit_all(F f, const Values& values, bool ordered) {
    const Number first = last_;
    for (const auto& value : values) submit(f, value);
    return PoolResults<C, R>(this, first, last_, ordered);
  }

  std::vector<ActorHandle<C>> idle_;
  std::deque<std::pair<Number, std::function<ObjectRef<R>(const ActorHandle<C>&)>>> queued_;
  std::map<Number, Started> results_;  // started calls whose results were not returned
  std::deque<Number> ended_;           // keys of `results_`, in the order in which calls ended
  CompletionQueue running_;
  Number last_ = 0;             // number of the next call
  std::uint64_t returned_ = 0;  // count of results that were returned or thrown
};

// The results of `ActorPool::map`: a range for one pass. An increment throws the error of its call;
// the next increment continues.
template <class C, class R>
class PoolResults {
 public:
  static_assert(!std::is_void_v<R>, "mobula: map needs calls with results; use submit");
  // For the library.
  PoolResults(ActorPool<C, R>* pool, std::uint64_t first, std::uint64_t last, bool ordered)
      : pool_(pool), first_(first), last_(last), left_(last - first), ordered_(ordered) {}

  // Waits for the next result. Empty after the last one.
  std::optional<R> next() {
    if (left_ == 0) return std::nullopt;
    const auto choose = [&] {
      return ordered_ ? last_ - left_ : pool_->first_ended(first_, last_);
    };
    const std::uint64_t before = pool_->returned_;
    try {
      std::optional<R> result = pool_->result_of(choose, std::nullopt, false);
      --left_;
      return result;
    } catch (...) {
      if (pool_->returned_ != before) --left_;
      throw;
    }
  }

  // Waits for the first result.
  auto begin() { return detail::NextIterator<PoolResults, R>(this); }
  // Returns the end of the range.
  std::default_sentinel_t end() const { return {}; }

 private:
  ActorPool<C, R>* pool_;
  std::uint64_t first_, last_, left_;
  bool ordered_;
};

}  // namespace mobula
