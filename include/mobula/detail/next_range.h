// `begin` and `end` of a range that has `std::optional<T> next()`.
// Thread: owner.
#pragma once

#include <cstddef>
#include <iterator>
#include <optional>

namespace mobula::detail {

// An input iterator over the values of `Range::next`.
template <class Range, class T>
class NextIterator {
 public:
  using value_type = T;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::input_iterator_tag;

  NextIterator() = default;
  explicit NextIterator(Range* range) : range_(range), now_(range->next()) {}

  const T& operator*() const { return *now_; }
  const T* operator->() const { return &*now_; }
  // After an exception, the next increment continues behind the failed element.
  NextIterator& operator++() {
    now_ = range_->next();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const NextIterator& at, std::default_sentinel_t) { return !at.now_; }

 private:
  Range* range_ = nullptr;
  std::optional<T> now_;
};

}  // namespace mobula::detail
