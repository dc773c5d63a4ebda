// Memory of what comes and goes with each call: small blocks that are given back stay with the thread that
// gave them, for the next of their size, so that a call costs no trip to the heap. A thread keeps up to
// `most_kept_bytes`; what is beyond, and what is large, goes to the heap as always. Blocks may be given back
// on any thread. With `RecycledVector`, `RecycledMap` and `make_recycled`, not by hand.
//
// Not for rows of tables, which keep their own memory (table.h), nor for what users hold.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace mobula::internal {

class RecycledBlocks {
 public:
  static constexpr std::size_t largest_block = 512;
  static constexpr std::size_t most_kept_bytes = 512u << 10;

  // At least `bytes`, aligned for any type of default alignment.
  static void* take(std::size_t bytes);
  static void give(void* block, std::size_t bytes) noexcept;
  // What the calling thread keeps.
  static std::size_t kept_bytes();
};

template <class T>
class Recycled {
 public:
  using value_type = T;
  Recycled() = default;
  template <class U>
  Recycled(const Recycled<U>&) {}  // NOLINT: as allocators are

  T* allocate(std::size_t count) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(RecycledBlocks::take(count * sizeof(T)));
  }
  void deallocate(T* block, std::size_t count) noexcept { RecycledBlocks::give(block, count * sizeof(T)); }

  template <class U>
  friend bool operator==(const Recycled&, const Recycled<U>&) {
    return true;
  }
};

template <class T>
using RecycledVector = std::vector<T, Recycled<T>>;

template <class K, class V>
using RecycledMap = std::map<K, V, std::less<K>, Recycled<std::pair<const K, V>>>;

template <class T, class... Args>
std::shared_ptr<T> make_recycled(Args&&... args) {
  return std::allocate_shared<T>(Recycled<T>(), std::forward<Args>(args)...);
}

}  // namespace mobula::internal
