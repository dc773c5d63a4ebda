// A table of rows by id that iterates in order of insertion, so that a core behaves equally in
// every run, whatever the hashes of ids. A row keeps its address until erased. Memory of erased
// rows is reused, up to a bound, so steady use allocates nothing.
// Thread: owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/id.h"

namespace mobula::internal {

struct RowHash {
  template <class Tag>
  std::size_t operator()(const Id<Tag>& id) const {
    return static_cast<std::size_t>(id.bits().low ^ (id.bits().high * 0x9e3779b97f4a7c15ULL));
  }
  template <class A, class B>
  std::size_t operator()(const std::pair<A, B>& key) const {
    return (*this)(key.first) * 0x9e3779b97f4a7c15ULL ^ (*this)(key.second);
  }
  template <class Key>
  requires requires(const Key& key) { key.row_hash(); }
  std::size_t operator()(const Key& key) const { return key.row_hash(); }
  std::size_t operator()(std::uint64_t key) const {
    return static_cast<std::size_t>(key * 0x9e3779b97f4a7c15ULL);
  }
};

template <class Key, class Row>
class Table {
  struct Links {  // links of the ring of all rows, in order of insertion
    Links* before = nullptr;
    Links* after = nullptr;
  };
  // A search that passes the node reads one cache line of it.
  struct Node : Links {
    template <class... Args>
    explicit Node(Node* next_here, const Key& key, Args&&... row)
        : next(next_here),
          entry(std::piecewise_construct, std::forward_as_tuple(key),
                std::forward_as_tuple(std::forward<Args>(row)...)) {}
    Node* next;  // next node in the bucket
    std::pair<const Key, Row> entry;
  };

  template <bool constant>
  class Iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = std::pair<const Key, Row>;
    using difference_type = std::ptrdiff_t;
    using reference = std::conditional_t<constant, const value_type&, value_type&>;
    using pointer = std::conditional_t<constant, const value_type*, value_type*>;

    Iterator() = default;
    explicit Iterator(Links* at) : at_(at) {}
    operator Iterator<true>() const { return Iterator<true>(at_); }  // NOLINT: as in containers

    reference operator*() const { return static_cast<Node*>(at_)->entry; }
    pointer operator->() const { return &**this; }
    Iterator& operator++() {
      at_ = at_->after;
      return *this;
    }
    Iterator operator++(int) { return std::exchange(*this, std::next(*this)); }
    Iterator& operator--() {
      at_ = at_->before;
      return *this;
    }
    Iterator operator--(int) { return std::exchange(*this, std::prev(*this)); }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    friend Table;
    Links* at_ = nullptr;
  };

 public:
  using iterator = Iterator<false>;
  using const_iterator = Iterator<true>;

  Table() { clear_ring(); }
  Table(Table&& other) noexcept : Table() { swap(other); }
  Table& operator=(Table&& other) noexcept {
    swap(other);
    return *this;
  }
  Table(const Table& other) : Table() {
    for (const auto& [key, row] : other) insert(key, row);
  }
  Table& operator=(const Table& other) {
    Table copy(other);
    swap(copy);
    return *this;
  }
  ~Table() {
    clear();
    drop_spares();
  }

  // The row of `key`, or null.
  Row* find(const Key& key) {
    Node* node = find_node(key);
    return node == nullptr ? nullptr : &node->entry.second;
  }
  const Row* find(const Key& key) const {
    const Node* node = find_node(key);
    return node == nullptr ? nullptr : &node->entry.second;
  }
  bool contains(const Key& key) const { return find_node(key) != nullptr; }

  Row& at(const Key& key) {
    Row* row = find(key);
    MOBULA_CHECK(row != nullptr, "no such row");
    return *row;
  }
  const Row& at(const Key& key) const {
    const Row* row = find(key);
    MOBULA_CHECK(row != nullptr, "no such row");
    return *row;
  }

  // Adds a row unless one exists. Returns the row and true if it is new.
  std::pair<Row*, bool> insert(const Key& key, Row&& row) {
    if (Row* there = find(key)) return {there, false};
    return {&append(key, std::move(row)), true};
  }
  std::pair<Row*, bool> insert(const Key& key, const Row& row) { return insert(key, Row(row)); }
  // The row of `key`; adds an empty one if none exists. Returns true if it is new.
  std::pair<Row*, bool> ensure(const Key& key) {
    if (Row* there = find(key)) return {there, false};
    return {&append(key), true};
  }
  Row& operator[](const Key& key) { return *ensure(key).first; }

  // Loads the memory of the row into the cache, for a search that follows soon.
  void prefetch(const Key& key) const {
    if (size_ == 0) return;
    const Node* node = buckets_[bucket_of(key)];
    __builtin_prefetch(node);
    if constexpr (sizeof(Node) > 64) __builtin_prefetch(reinterpret_cast<const char*>(node) + 64);
  }

  // Removes the row, which must exist, and returns it.
  Row take(const Key& key) {
    Node* node = find_node(key);
    MOBULA_CHECK(node != nullptr, "no such row");
    Row row = std::move(node->entry.second);
    remove(node);
    return row;
  }
  bool erase(const Key& key) {
    Node* node = find_node(key);
    if (node == nullptr) return false;
    remove(node);
    return true;
  }
  iterator erase(iterator at) {
    Links* const after = at.at_->after;
    remove(static_cast<Node*>(at.at_));
    return iterator(after);
  }
  void clear() {
    while (size_ > 0) remove(static_cast<Node*>(ring_.after));
  }

  std::size_t size() const { return size_; }
  // Rows that iterations may have visited: each begin() counts all rows. For tests of cores.
  std::uint64_t walked() const { return walked_; }
  bool empty() const { return size_ == 0; }
  iterator begin() {
    walked_ += size_;
    return iterator(ring_.after);
  }
  iterator end() { return iterator(&ring_); }
  const_iterator begin() const {
    walked_ += size_;
    return const_iterator(ring_.after);
  }
  const_iterator end() const { return const_iterator(const_cast<Links*>(&ring_)); }

 private:
  // A search reads few nodes of other keys, because at most half of the buckets are used.
  static constexpr std::size_t fewest_buckets = 8;
  static constexpr std::size_t most_spares = (std::size_t{256} << 10) / sizeof(Node) + 1;

  std::size_t bucket_of(const Key& key) const {
    // The upper half of a product depends on all bits of the hash.
    const auto hash = static_cast<std::uint64_t>(RowHash()(key)) * 0x9e3779b97f4a7c15ULL;
    return static_cast<std::size_t>(hash >> 32) & (buckets_.size() - 1);
  }
  Node* find_node(const Key& key) const {
    if (size_ == 0) return nullptr;
    Node* node = buckets_[bucket_of(key)];
    while (node != nullptr && !(node->entry.first == key)) node = node->next;
    return node;
  }

  template <class... Args>
  Row& append(const Key& key, Args&&... row) {
    if (2 * size_ >= buckets_.size()) rehash(std::max(fewest_buckets, 2 * buckets_.size()));
    Node*& bucket = buckets_[bucket_of(key)];
    Node* node = new (take_memory()) Node(bucket, key, std::forward<Args>(row)...);
    bucket = node;
    node->before = ring_.before;
    node->after = &ring_;
    ring_.before->after = node;
    ring_.before = node;
    ++size_;
    return node->entry.second;
  }

  // The row is destroyed after it is unlinked, because its destructor may use this table.
  void remove(Node* node) {
    Node** link = &buckets_[bucket_of(node->entry.first)];
    while (*link != node) link = &(*link)->next;
    *link = node->next;
    node->before->after = node->after;
    node->after->before = node->before;
    --size_;
    if (buckets_.size() > fewest_buckets && size_ < buckets_.size() / 16)
      rehash(buckets_.size() / 4);
    node->~Node();
    give_memory(node);
  }

  void rehash(std::size_t buckets) {
    std::vector<Node*>(std::max(fewest_buckets, buckets), nullptr).swap(buckets_);
    for (Links* at = ring_.after; at != &ring_; at = at->after) {
      Node* node = static_cast<Node*>(at);
      Node*& bucket = buckets_[bucket_of(node->entry.first)];
      node->next = bucket;
      bucket = node;
    }
  }

  void* take_memory() {
    if (spares_.empty()) return std::allocator<Node>().allocate(1);
    Node* memory = spares_.back();
    spares_.pop_back();
    return memory;
  }
  void give_memory(Node* memory) {
    if (spares_.size() < most_spares) {
      spares_.push_back(memory);
    } else {
      std::allocator<Node>().deallocate(memory, 1);
    }
  }
  void drop_spares() {
    for (Node* memory : spares_) std::allocator<Node>().deallocate(memory, 1);
    spares_.clear();
  }

  void clear_ring() { ring_.before = ring_.after = &ring_; }
  void swap(Table& other) {
    std::swap(ring_, other.ring_);
    std::swap(size_, other.size_);
    buckets_.swap(other.buckets_);
    spares_.swap(other.spares_);
    for (Table* table : {this, &other}) {
      if (table->size_ == 0) {
        table->clear_ring();
      } else {
        table->ring_.after->before = table->ring_.before->after = &table->ring_;
      }
    }
  }

  Links ring_;
  std::size_t size_ = 0;
  mutable std::uint64_t walked_ = 0;
  std::vector<Node*> buckets_;  // a power of two of them
  std::vector<Node*> spares_;   // free nodes for reuse
};

}  // namespace mobula::internal
