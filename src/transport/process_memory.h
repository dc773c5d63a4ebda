// What rings and doorbells ask of the memory they lie in: atomic words, and bytes that one process
// writes and another reads after a word has told it to. Their code is written over it, so that the
// same code runs in memory that processes share and on a model of it, where all that can happen
// between them is tried (tests/transport/model). Value functions; any thread.
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
  // A long record leaves in pieces of at least this size, so that a nearly full ring does not cut it
  // into crumbs.
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
