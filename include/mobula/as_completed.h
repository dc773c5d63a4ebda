// `as_completed(refs)`: a range over refs in the order in which they become ready.
// Thread: owner.
// Errors: GetTimeoutError from an increment after the timeout, otherwise as CompletionQueue. After
// InterruptedError, `begin()` of the same range continues with the next ref.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <mobula/on_ready.h>

namespace mobula {

// Options of as_completed.
struct AsCompletedOptions {
  std::optional<Duration> timeout = {};  // for all refs, from the call on; absent: none
  bool fetch_local = true;               // as WaitOptions::fetch_local
};

// One ready ref, and its index in the vector.
template <class T>
struct Completed {
  std::size_t index = 0;  // index in the vector
  ObjectRef<T> ref = {};  // ready
};

namespace detail {

// Indices of ready refs, as they become ready.
class MOBULA_API CompletionFeed {
 public:
  CompletionFeed(std::span<const AnyRef> refs, const AsCompletedOptions& options);
  CompletionFeed(CompletionFeed&&) noexcept;
  CompletionFeed& operator=(CompletionFeed&&) noexcept;
  ~CompletionFeed();
  // Waits for the next ready ref. Empty after the last one.
  std::optional<std::size_t> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace detail

// A range for one pass. An early end of the loop ends the notification of the other refs.
template <class T>
class AsCompleted {
 public:
  // For the library.
  AsCompleted(std::vector<ObjectRef<T>> refs, const AsCompletedOptions& options)
      : refs_(std::move(refs)), feed_(std::vector<AnyRef>(refs_.begin(), refs_.end()), options) {}

  // An input iterator.
  class Iterator {
   public:
    using value_type = Completed<T>;                   // element type
    using difference_type = std::ptrdiff_t;            // required by std::input_iterator
    using iterator_concept = std::input_iterator_tag;  // category

    // Creates the end.
    Iterator() = default;
    // Waits for the first ready ref.
    explicit Iterator(AsCompleted* range) : range_(range) { ++*this; }
    // Returns the ready ref.
    const Completed<T>& operator*() const { return now_; }
    // Accesses the ready ref.
    const Completed<T>* operator->() const { return &now_; }
    // Waits for the next ready ref.
    Iterator& operator++() {
      const auto index = range_->feed_.next();
      if (index) {
        now_ = {*index, range_->refs_[*index]};
      } else {
        range_ = nullptr;
      }
      return *this;
    }
    // Waits for the next ready ref.
    void operator++(int) { ++*this; }
    // Reports whether no ref is left.
    friend bool operator==(const Iterator& at, std::default_sentinel_t) {
      return at.range_ == nullptr;
    }

   private:
    AsCompleted* range_ = nullptr;
    Completed<T> now_;
  };

  // Waits for the first ready ref.
  Iterator begin() { return Iterator(this); }
  // Returns the end of the range.
  std::default_sentinel_t end() const { return {}; }

 private:
  std::vector<ObjectRef<T>> refs_;
  detail::CompletionFeed feed_;
};

// Yields each ref once, when it holds a value or an error:
// `for (const auto& [index, ref] : as_completed(refs)) use(get(ref));`
template <class T>
AsCompleted<T> as_completed(std::vector<ObjectRef<T>> refs,
                            const AsCompletedOptions& options = {}) {
  return AsCompleted<T>(std::move(refs), options);
}

// Waits at most `timeout` for all refs.
template <class T>
AsCompleted<T> as_completed(std::vector<ObjectRef<T>> refs, Duration timeout) {
  return as_completed(std::move(refs), AsCompletedOptions{.timeout = timeout});
}

}  // namespace mobula
