// Ring buffer of the latest rows, up to a bound. Older rows are overwritten and counted. Memory is
// allocated once, at the first row.
// Thread: owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace mobula::internal {

template <class T, std::size_t bound>
class RingBuffer {
 public:
  void add(T value) {
    if (rows_.size() < bound) {
      if (rows_.empty()) rows_.reserve(bound);  // the kernel adds pages as rows are written
      rows_.push_back(std::move(value));
      return;
    }
    rows_[first_] = std::move(value);
    first_ = first_ + 1 == bound ? 0 : first_ + 1;
    ++forgotten_;
  }
  std::size_t size() const { return rows_.size(); }
  // `at` counts from the oldest row; below size().
  const T& operator[](std::size_t at) const { return rows_[(first_ + at) % rows_.size()]; }
  std::uint64_t forgotten() const { return forgotten_; }

 private:
  std::vector<T> rows_;
  std::size_t first_ = 0;  // index of the oldest row
  std::uint64_t forgotten_ = 0;
};

}  // namespace mobula::internal
