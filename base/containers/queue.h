// A FIFO queue that keeps its memory, so steady use allocates nothing. Rows are in one circular
// block, and a push may move them. Large empty blocks are freed.
// Thread: owner.
#pragma once

#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace mobula::internal {

template <class T>
class Queue {
 public:
  class const_iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = const T*;
    using reference = const T&;

    const_iterator() = default;
    const_iterator(const Queue& of, std::size_t at) : of_(&of), at_(at) {}
    reference operator*() const { return (*of_)[at_]; }
    pointer operator->() const { return &**this; }
    const_iterator& operator++() {
      ++at_;
      return *this;
    }
    const_iterator operator++(int) { return std::exchange(*this, {*of_, at_ + 1}); }
    friend bool operator==(const const_iterator& a, const const_iterator& b) {
      return a.at_ == b.at_;
    }

   private:
    const Queue* of_ = nullptr;
    std::size_t at_ = 0;
  };
  using value_type = T;
  using iterator = const_iterator;

  Queue() = default;
  Queue(const Queue&) = default;
  Queue& operator=(const Queue&) = default;
  Queue(Queue&& other) noexcept
      : rows_(std::move(other.rows_)),
        first_(std::exchange(other.first_, 0)),
        size_(std::exchange(other.size_, 0)) {}
  Queue& operator=(Queue&& other) noexcept {
    rows_ = std::exchange(other.rows_, {});
    first_ = std::exchange(other.first_, 0);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  // `at` counts from the front; below size().
  T& operator[](std::size_t at) { return rows_[index_of(at)]; }
  const T& operator[](std::size_t at) const { return rows_[index_of(at)]; }
  T& front() { return (*this)[0]; }
  const T& front() const { return (*this)[0]; }
  const_iterator begin() const { return {*this, 0}; }
  const_iterator end() const { return {*this, size_}; }

  // `row` is no row of this queue.
  void push_back(T&& row) { next_row() = std::move(row); }
  void push_back(const T& row) { next_row() = row; }
  // Destroys the contents of the row immediately.
  void pop_front() {
    front() = T();
    leave_front();
  }
  T take_front() {
    T row = std::move(front());
    leave_front();
    return row;
  }

 private:
  static constexpr std::size_t fewest = 8;
  static constexpr std::size_t max_idle_rows = 1024;

  T& next_row() {
    if (size_ == rows_.size()) grow();
    return rows_[index_of(size_++)];
  }
  void leave_front() {
    first_ = index_of(1);
    if (--size_ == 0 && rows_.size() > max_idle_rows) rows_ = std::vector<T>();
    if (size_ == 0) first_ = 0;
  }
  std::size_t index_of(std::size_t at) const { return (first_ + at) & (rows_.size() - 1); }
  void grow() {
    std::vector<T> larger(rows_.empty() ? fewest : 2 * rows_.size());  // a power of two
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    rows_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> rows_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace mobula::internal
