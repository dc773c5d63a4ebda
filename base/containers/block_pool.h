// Block pool for memory that each call allocates and frees. A freed small block stays with the
// freeing thread for reuse, so a call needs no heap allocation. A thread keeps at most
// `max_cached_bytes`; large and excess blocks use the heap.
// Thread: any; a block may be freed on any thread.
// Not: direct use. Use `PooledVector`, `PooledMap`, and `make_pooled`; rows of tables (table.h) and
// values of users have other memory.
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
  static constexpr std::size_t max_cached_bytes = 2u << 20;  // 1,000 calls of coroutines use half

  // At least `bytes`, with the default alignment.
  static void* take(std::size_t bytes);
  static void give(void* block, std::size_t bytes) noexcept;
  // Bytes that the calling thread keeps.
  static std::size_t cached_bytes();
};

template <class T>
class Recycled {
 public:
  using value_type = T;
  Recycled() = default;
  template <class U>
  Recycled(const Recycled<U>&) {}  // NOLINT: implicit, as allocators require

  T* allocate(std::size_t count) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(RecycledBlocks::take(count * sizeof(T)));
  }
  void deallocate(T* block, std::size_t count) noexcept {
    RecycledBlocks::give(block, count * sizeof(T));
  }

  template <class U>
  friend bool operator==(const Recycled&, const Recycled<U>&) {
    return true;
  }
};

template <class T>
using PooledVector = std::vector<T, Recycled<T>>;

template <class K, class V>
using PooledMap = std::map<K, V, std::less<K>, Recycled<std::pair<const K, V>>>;

template <class T, class... Args>
std::shared_ptr<T> make_pooled(Args&&... args) {
  return std::allocate_shared<T>(Recycled<T>(), std::forward<Args>(args)...);
}

}  // namespace mobula::internal
