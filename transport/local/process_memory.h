// Requirements of rings and doorbells on their memory: atomic words, and bytes that one process
// writes and another one reads after a word was published. Rings and doorbells are templates over
// it. The same code therefore runs on shared memory and on a model that tries all interleavings
// (tests/transport/model).
// Thread: any (values).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace mobula::internal {

struct ProcessMemory {
  template <class T>
  using Atomic = std::atomic<T>;

  static constexpr std::size_t ring_capacity = 64u << 10;
  // Minimum bytes of a piece of a long record, so that a nearly full ring does not split it into
  // tiny pieces.
  static constexpr std::size_t least_piece = 4096;

  static void write(std::byte* to, std::span<const std::byte> bytes) {
    std::memcpy(to, bytes.data(), bytes.size());
  }
  static void read(const std::byte* from, std::span<std::byte> bytes) {
    std::memcpy(bytes.data(), from, bytes.size());
  }
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace mobula::internal
