// Memory of the blocks that each call of a coroutine allocates and frees. A freed small block stays
// with the freeing thread for reuse, so a call needs no heap allocation.
// Thread: any; a block may be freed on any thread.
#pragma once

#include <cstddef>
#include <memory>

#include <mobula/detail/export.h>

namespace mobula::detail {

MOBULA_API void* take_block(std::size_t bytes);
MOBULA_API void give_block(void* block, std::size_t bytes) noexcept;

template <class T>
struct BlockAllocator {
  using value_type = T;
  static constexpr bool is_over_aligned = alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__;
  BlockAllocator() = default;
  template <class U>
  BlockAllocator(const BlockAllocator<U>&) {}  // NOLINT: implicit, as allocators require
  T* allocate(std::size_t count) {
    if constexpr (is_over_aligned) return std::allocator<T>().allocate(count);
    return static_cast<T*>(take_block(count * sizeof(T)));
  }
  void deallocate(T* block, std::size_t count) noexcept {
    if constexpr (is_over_aligned) return std::allocator<T>().deallocate(block, count);
    give_block(block, count * sizeof(T));
  }
  template <class U>
  friend bool operator==(const BlockAllocator&, const BlockAllocator<U>&) {
    return true;
  }
};

}  // namespace mobula::detail
