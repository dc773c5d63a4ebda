#include "base/containers/block_pool.h"

namespace mobula::internal {
namespace {

constexpr std::size_t step_bytes = 16;
constexpr std::size_t sizes = RecycledBlocks::largest_block / step_bytes;

struct FreeBlock {
  FreeBlock* next;
};

// Free blocks of one thread. Plain data, so it stays readable until the thread has ended, in any
// order of destructors.
struct FreeBlocks {
  std::array<FreeBlock*, sizes> first;  // by size
  std::size_t bytes;
  bool over;  // the thread ends and keeps no further blocks
};
constinit thread_local FreeBlocks free_blocks{};

struct AtThreadEnd {
  AtThreadEnd() = default;
  AtThreadEnd(const AtThreadEnd&) = delete;
  AtThreadEnd& operator=(const AtThreadEnd&) = delete;
  ~AtThreadEnd() {
    free_blocks.over = true;
    for (FreeBlock*& first : free_blocks.first) {
      while (first != nullptr) ::operator delete(std::exchange(first, first->next));
    }
    free_blocks.bytes = 0;
  }
};

std::size_t size_of(std::size_t bytes) { return bytes == 0 ? 0 : (bytes - 1) / step_bytes; }

}  // namespace

void* RecycledBlocks::take(std::size_t bytes) {
  if (bytes > largest_block) return ::operator new(bytes);
  const std::size_t size = size_of(bytes);
  FreeBlock*& first = free_blocks.first[size];
  const std::size_t block_bytes = (size + 1) * step_bytes;
  if (first == nullptr) return ::operator new(block_bytes);
  free_blocks.bytes -= block_bytes;
  return std::exchange(first, first->next);
}

void RecycledBlocks::give(void* block, std::size_t bytes) noexcept {
  const std::size_t size = size_of(bytes);
  const std::size_t block_bytes = (size + 1) * step_bytes;
  if (bytes > largest_block || free_blocks.over ||
      free_blocks.bytes + block_bytes > max_cached_bytes) {
    return ::operator delete(block);
  }
  thread_local const AtThreadEnd at_thread_end;
  free_blocks.first[size] = ::new (block) FreeBlock{free_blocks.first[size]};
  free_blocks.bytes += block_bytes;
}

std::size_t RecycledBlocks::cached_bytes() { return free_blocks.bytes; }

}  // namespace mobula::internal
