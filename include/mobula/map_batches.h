// Maps items to calls with a bounded number of calls in flight:
//
//   const auto call = [](int item) { return mobula::task<work>.remote(item); };
//   for (const int result : mobula::map_calls(items, call, {.max_in_flight = 8})) use(result);
//
// Thread: owner. Items are read, and calls start, inside `next` and the increments of the range.
// Errors: an increment throws the error of its call, or of `f`; the next increment continues.
// Owner: the range has refs of the calls in flight. Its end starts no further call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <iterator>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobula/detail/next_range.h>
#include <mobula/errors.h>
#include <mobula/get.h>
#include <mobula/on_ready.h>

namespace mobula {

// Options of map_calls and map_batches.
struct MapOptions {
  std::size_t max_in_flight = 16;  // calls whose results were not returned, at least 1
  bool ordered = true;             // results in the order of the items; false: as calls end
};

// The results of map_calls: a range for one pass.
template <class Items, class F>
class MappedCalls {
 public:
  // The type of the items.
  using Item = std::remove_cvref_t<decltype(*std::begin(std::declval<Items&>()))>;
  // The ref that F returns.
  using Ref = std::invoke_result_t<F&, Item>;
  // The value of the ref.
  using value_type = typename Ref::value_type;
  static_assert(!std::is_void_v<value_type>, "mobula: map_calls needs calls with results");

  // For the library.
  MappedCalls(Items items, F f, const MapOptions& options)
      : items_(std::move(items)), f_(std::move(f)), options_(options) {
    if (options_.max_in_flight == 0)
      throw InvalidRequestError("map_calls: max_in_flight is 0, and must be at least 1");
  }

  // Waits for the next result. Empty after the last one.
  std::optional<value_type> next() {
    fill();
    if (calls_.empty()) return std::nullopt;
    const std::uint64_t number = options_.ordered ? calls_.begin()->first : wait_for_any();
    try {
      const Call& call = calls_.at(number);
      if (call.failure) std::rethrow_exception(call.failure);
      std::optional<value_type> value = get(call.ref);
      drop(number);
      return value;
    } catch (const InterruptedError&) {
      throw;  // the result is returned by the next call
    } catch (...) {
      drop(number);
      throw;
    }
  }

  // Waits for the first result.
  auto begin() { return detail::NextIterator<MappedCalls, value_type>(this); }
  // Returns the end of the range.
  std::default_sentinel_t end() const { return {}; }

 private:
  struct Call {
    Ref ref = {};
    std::exception_ptr failure = {};  // thrown instead of making the ref
  };

  void fill() {
    if (!at_) at_.emplace(std::begin(items_));
    for (; calls_.size() < options_.max_in_flight && *at_ != std::end(items_); ++*at_) {
      Call call;
      try {
        call.ref = f_(Item(**at_));
        if (!options_.ordered) running_.add(call.ref, last_);
      } catch (const InterruptedError&) {
        throw;  // the item is used again
      } catch (...) {
        call.failure = std::current_exception();
        ended_.push_back(last_);
      }
      calls_.emplace(last_++, std::move(call));
    }
  }
  std::uint64_t wait_for_any() {
    std::array<std::uint64_t, 1> token{};
    if (ended_.empty() && running_.take(token, Duration::max()) == 1) ended_.push_back(token[0]);
    return ended_.front();
  }
  void drop(std::uint64_t number) {
    calls_.erase(number);
    std::erase(ended_, number);
  }

  Items items_;
  F f_;
  MapOptions options_;
  std::optional<decltype(std::begin(std::declval<Items&>()))> at_;  // next item
  std::map<std::uint64_t, Call> calls_;                             // in flight, by number
  CompletionQueue running_;                                         // used if not ordered
  std::deque<std::uint64_t> ended_;  // keys of `calls_` that can be returned
  std::uint64_t last_ = 0;           // number of the next call
};

// Returns a range of the results of `f(item)`, which returns an ObjectRef. `items` is a vector or
// any other range, also an infinite one.
template <class Items, class F>
auto map_calls(Items items, F f, const MapOptions& options = {}) {
  return MappedCalls<Items, F>(std::move(items), std::move(f), options);
}

// The same for vectors of `batch_size` items, the last one with the rest: `f(batch)` returns an
// ObjectRef, and the range has one result per batch.
template <class T, class F>
auto map_batches(std::vector<T> items, std::size_t batch_size, F f,
                 const MapOptions& options = {}) {
  if (batch_size == 0)
    throw InvalidRequestError("map_batches: batch_size is 0, and must be at least 1");
  std::vector<std::vector<T>> batches;
  for (T& item : items) {
    if (batches.empty() || batches.back().size() == batch_size) {
      batches.emplace_back();
      batches.back().reserve(batch_size);
    }
    batches.back().push_back(std::move(item));
  }
  return map_calls(std::move(batches), std::move(f), options);
}

}  // namespace mobula
