// A table like Table (table.h), for up to millions of rows: it iterates in order of insertion, and
// a row keeps its address until erased. Rows are stored in blocks, in order of insertion while none
// is erased. An array of hashes finds them, so a search reads only the row that it returns, and
// growth reads no row. Memory of erased rows is reused, and large empty blocks are freed.
// Thread: owner.
// Not: small tables, for which Table needs less memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/containers/table.h"

namespace mobula::internal {

template <class Key, class Row>
class BlockTable {
  using RowIndex = std::uint32_t;  // index of a row, over all blocks
  static constexpr RowIndex none = 0xffff'ffff;

  struct Node {
    explicit Node(const Key& key)
        : entry(std::piecewise_construct, std::forward_as_tuple(key), std::tuple<>()) {}
    RowIndex before = none;  // neighbors in order of insertion
    RowIndex after = none;
    std::pair<const Key, Row> entry;
  };
  union Cell {
    Cell() {}   // NOLINT: the table constructs the row
    ~Cell() {}  // NOLINT: and destroys it
    Node node;
    RowIndex next_free;  // without a row
  };

  template <bool constant>
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::pair<const Key, Row>;
    using difference_type = std::ptrdiff_t;
    using reference = std::conditional_t<constant, const value_type&, value_type&>;
    using pointer = std::conditional_t<constant, const value_type*, value_type*>;

    Iterator() = default;
    Iterator(const BlockTable* of, RowIndex at) : of_(of), at_(at) {}

    reference operator*() const { return of_->node(at_).entry; }
    pointer operator->() const { return &**this; }
    Iterator& operator++() {
      at_ = of_->node(at_).after;
      return *this;
    }
    Iterator operator++(int) { return std::exchange(*this, std::next(*this)); }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.at_ == b.at_; }

   private:
    const BlockTable* of_ = nullptr;
    RowIndex at_ = none;
  };

 public:
  using iterator = Iterator<false>;
  using const_iterator = Iterator<true>;

  BlockTable() = default;
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;
  ~BlockTable() { clear(); }

  // The row of `key`, or null.
  Row* find(const Key& key) {
    Node* const found = find_node(key).node;
    return found == nullptr ? nullptr : &found->entry.second;
  }
  const Row* find(const Key& key) const {
    const Node* const found = find_node(key).node;
    return found == nullptr ? nullptr : &found->entry.second;
  }
  bool contains(const Key& key) const { return find_node(key).node != nullptr; }

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

  // The row of `key`; adds an empty one if none exists. Returns true if it is new.
  std::pair<Row*, bool> ensure(const Key& key) {
    if (Row* there = find(key)) return {there, false};
    return {&append(key), true};
  }
  Row& operator[](const Key& key) { return *ensure(key).first; }

  // Removes the row, which must exist, and returns it.
  Row take(const Key& key) {
    const Found found = find_node(key);
    MOBULA_CHECK(found.node != nullptr, "no such row");
    Row row = std::move(found.node->entry.second);
    remove(found);
    return row;
  }
  bool erase(const Key& key) {
    const Found found = find_node(key);
    if (found.node == nullptr) return false;
    remove(found);
    return true;
  }
  void clear() {
    while (size_ > 0) erase(node(first_).entry.first);
  }

  // Loads the hash of a key into the cache, for a search or an insertion that follows soon.
  void prefetch(const Key& key) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[slot_of(hash_of(key))]);
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  iterator begin() { return {this, first_}; }
  iterator end() { return {this, none}; }
  const_iterator begin() const { return {this, first_}; }
  const_iterator end() const { return {this, none}; }
  // Bytes of all rows, used or not, and of the hashes.
  std::size_t allocated_bytes() const {
    std::size_t bytes = slots_.size() * sizeof(Slot);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].cells) bytes += size_of(i) * sizeof(Cell);
    }
    return bytes;
  }

 private:
  // Linear probing from the slot that the hash selects.
  struct Slot {
    std::uint32_t hash = 0;
    RowIndex row = none;  // none: empty
  };
  struct Found {
    std::size_t slot = 0;
    Node* node = nullptr;  // null: no such row
  };
  // Each block has twice the cells of the one before it.
  struct Block {
    std::unique_ptr<Cell[]> cells;  // null: freed
    RowIndex used = 0;              // count of cells that had a row
    RowIndex free = none;           // first of them without a row
    RowIndex rows = 0;
  };
  static constexpr std::size_t first_block_bits = 3;
  static constexpr std::size_t fewest_slots = 16;
  // Blocks up to this size stay allocated without rows.
  static constexpr std::size_t most_spare_bytes = std::size_t{256} << 10;

  static std::uint32_t hash_of(const Key& key) {
    // The upper half of a product depends on all bits of the hash.
    const auto product = static_cast<std::uint64_t>(RowHash()(key)) * 0x9e3779b97f4a7c15ULL;
    return static_cast<std::uint32_t>(product >> 32);
  }
  std::size_t slot_of(std::uint32_t hash) const { return hash & mask_; }
  std::size_t after(std::size_t slot) const { return (slot + 1) & mask_; }

  static std::size_t size_of(std::size_t block) {
    return std::size_t{1} << (block + first_block_bits);
  }
  static bool is_large(std::size_t block) {
    return size_of(block) * sizeof(Cell) > most_spare_bytes;
  }
  static std::size_t first_of(std::size_t block) { return size_of(block) - size_of(0); }
  static std::size_t block_of(RowIndex row) {
    // The lowest bit has no effect on the width, and no instruction is spent on a width of 0.
    return static_cast<std::size_t>(std::bit_width((row + size_of(0)) | 1)) - 1 - first_block_bits;
  }
  Cell& cell(RowIndex row) const {
    const std::size_t block = block_of(row);
    return blocks_[block].cells[row - first_of(block)];
  }
  Node& node(RowIndex row) const { return cell(row).node; }

  Found find_node(const Key& key) const {
    if (size_ == 0) return {};
    const std::uint32_t hash = hash_of(key);
    const Slot* const slots = slots_.data();
    for (std::size_t at = slot_of(hash); slots[at].row != none; at = after(at)) {
      if (slots[at].hash != hash) continue;
      Node& there = node(slots[at].row);
      if (there.entry.first == key) return {at, &there};
    }
    return {};
  }

  Row& append(const Key& key) {
    // At most three quarters of the slots are used.
    if (4 * (size_ + 1) > 3 * slots_.size()) rehash(std::max(fewest_slots, 2 * slots_.size()));
    const RowIndex row = take_cell();
    Node* const added = ::new (&cell(row)) Node(key);
    put({hash_of(key), row});
    added->before = last_;
    (last_ == none ? first_ : node(last_).after) = row;
    last_ = row;
    ++size_;
    return added->entry.second;
  }
  void put(Slot added) {
    std::size_t slot = slot_of(added.hash);
    while (slots_[slot].row != none) slot = after(slot);
    slots_[slot] = added;
  }

  // The row is destroyed after it is unlinked, because its destructor may use this table.
  void remove(const Found& found) {
    const RowIndex row = slots_[found.slot].row;
    Node& removed = *found.node;
    (removed.before == none ? first_ : node(removed.before).after) = removed.after;
    (removed.after == none ? last_ : node(removed.after).before) = removed.before;
    empty_slot(found.slot);
    --size_;
    if (slots_.size() > fewest_slots && size_ < slots_.size() / 32) rehash(slots_.size() / 8);
    removed.~Node();
    give_cell(row);
  }
  // Moves later hashes of the run forward, so that no search ends too early.
  void empty_slot(std::size_t hole) {
    for (std::size_t at = after(hole); slots_[at].row != none; at = after(at)) {
      if (((at - slot_of(slots_[at].hash)) & mask_) < ((at - hole) & mask_)) continue;
      slots_[std::exchange(hole, at)] = slots_[at];
    }
    slots_[hole].row = none;
  }
  void rehash(std::size_t count) {
    std::vector<Slot> before(std::max(fewest_slots, count));
    before.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& each : before) {
      if (each.row != none) put(each);
    }
    free_empty_blocks();
  }

  // From the first block with a free cell, so that later blocks become empty.
  RowIndex take_cell() {
    while (open_ < blocks_.size() && blocks_[open_].rows == size_of(open_)) ++open_;
    if (open_ == blocks_.size()) blocks_.emplace_back();
    Block& block = blocks_[open_];
    if (!block.cells) block.cells.reset(new Cell[size_of(open_)]);
    ++block.rows;
    if (block.free == none) return static_cast<RowIndex>(first_of(open_)) + block.used++;
    const RowIndex row = block.free;
    block.free = cell(row).next_free;
    return row;
  }
  void give_cell(RowIndex row) {
    const std::size_t number = block_of(row);
    Block& block = blocks_[number];
    cell(row).next_free = std::exchange(block.free, row);
    --block.rows;
    open_ = std::min(open_, number);
    if (block.rows > 0) return;
    block.used = 0;  // the next rows are in order again
    block.free = none;
    if (is_large(number)) free_empty_blocks();
  }
  // A block remains if the rows may soon need it again.
  void free_empty_blocks() {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const bool is_needed = 4 * size_ >= first_of(i) || blocks_[i].rows > 0;
      if (is_large(i) && !is_needed) blocks_[i].cells.reset();
    }
  }

  std::vector<Block> blocks_;
  std::vector<Slot> slots_;  // a power of two of them
  std::size_t mask_ = 0;     // slots_.size() - 1, of a table that had a row
  std::size_t open_ = 0;     // no earlier block has a free cell
  RowIndex first_ = none, last_ = none;
  std::size_t size_ = 0;
};

}  // namespace mobula::internal
