// A ring of bytes in shared memory, one direction of a stream between two members, and the protocol
// by which each end sleeps and wakes the other. Templates over the memory, so that a model test
// runs the same code (transport/local/process_memory.h).
// Thread: owner of each end; calls never block.
// Errors: corrupt if the other end reports an impossible position.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace mobula::internal::collective {

// The shared positions. Each has its own cache line, so that one end does not slow the other.
template <class Memory>
struct BasicStreamRing {
  template <class T>
  using Atomic = typename Memory::template Atomic<T>;
  alignas(64) Atomic<std::uint64_t> written;  // bytes published; only the writer stores it
  alignas(64) Atomic<std::uint64_t> read;     // bytes read; only the reader stores it
  alignas(64) Atomic<std::uint32_t> writer_sleeps;
  alignas(64) Atomic<std::uint32_t> reader_sleeps;
};

namespace stream_ring {

// The position is stored before this call, and the sleeper sets its flag before it reads the
// position. Both use sequentially consistent order, so no wake-up is lost.
template <class Flag, class Wake>
void wake_sleeper(Flag& sleeps, const Wake& wake) {
  if (sleeps.load(std::memory_order_seq_cst) == 0) return;
  if (sleeps.exchange(0, std::memory_order_seq_cst) != 0) wake();
}

inline Failure impossible_position() {
  return failure(ErrorCode::corrupt, "the other end reports an impossible position of its ring");
}

}  // namespace stream_ring

template <class Memory>
class BasicStreamWriter {
 public:
  // `bytes` has `Memory::stream_capacity` bytes. Both are zero at first and outlive the writer.
  BasicStreamWriter(BasicStreamRing<Memory>* ring, std::byte* bytes) : ring_(ring), bytes_(bytes) {}

  // Publishes some of the bytes, or none if the ring is full. `wake` wakes the reader.
  template <class Wake>
  Result<std::size_t> write(std::span<const std::byte> bytes, const Wake& wake) {
    constexpr std::size_t capacity = Memory::stream_capacity;
    const std::uint64_t read = ring_->read.load(std::memory_order_acquire);
    if (read > written_ || written_ - read > capacity) return stream_ring::impossible_position();
    const std::size_t space = capacity - static_cast<std::size_t>(written_ - read);
    const std::size_t some = std::min(bytes.size(), space);
    if (some == 0) return std::size_t{0};
    const std::size_t at = written_ % capacity;
    const std::size_t first = std::min(some, capacity - at);
    Memory::write(bytes_ + at, bytes.first(first));
    if (first < some) Memory::write(bytes_, bytes.subspan(first, some - first));
    written_ += some;
    ring_->written.store(written_, std::memory_order_seq_cst);
    stream_ring::wake_sleeper(ring_->reader_sleeps, wake);
    return some;
  }

  // Announces that the writer will block. True if it must not, because space is free.
  bool prepare_sleep() {
    ring_->writer_sleeps.store(1, std::memory_order_seq_cst);
    const std::uint64_t pending = written_ - ring_->read.load(std::memory_order_seq_cst);
    constexpr std::uint64_t capacity = Memory::stream_capacity;
    return capacity - std::min(pending, capacity) >= Memory::worth_waking;
  }

 private:
  BasicStreamRing<Memory>* ring_;
  std::byte* bytes_;
  std::uint64_t written_ = 0;  // local copy; the value in shared memory is not trusted
};

template <class Memory>
class BasicStreamReader {
 public:
  BasicStreamReader(BasicStreamRing<Memory>* ring, const std::byte* bytes)
      : ring_(ring), bytes_(bytes) {}

  // Stores some bytes in `into`, or none if the ring is empty. `wake` wakes the writer, only for
  // `worth_waking` bytes of space: wake-ups for a few bytes each would dominate the cost.
  template <class Wake>
  Result<std::size_t> read(std::span<std::byte> into, const Wake& wake) {
    constexpr std::size_t capacity = Memory::stream_capacity;
    const std::uint64_t written = ring_->written.load(std::memory_order_acquire);
    if (written < read_ || written - read_ > capacity) return stream_ring::impossible_position();
    const std::size_t some = std::min(into.size(), static_cast<std::size_t>(written - read_));
    if (some == 0) return std::size_t{0};
    const std::size_t at = read_ % capacity;
    const std::size_t first = std::min(some, capacity - at);
    Memory::read(bytes_ + at, into.first(first));
    if (first < some) Memory::read(bytes_, into.subspan(first, some - first));
    read_ += some;
    ring_->read.store(read_, std::memory_order_seq_cst);
    if (capacity - (written - read_) >= Memory::worth_waking)
      stream_ring::wake_sleeper(ring_->writer_sleeps, wake);
    return some;
  }

  // Announces that the reader will block. True if it must not, because bytes are available.
  bool prepare_sleep() {
    ring_->reader_sleeps.store(1, std::memory_order_seq_cst);
    return ring_->written.load(std::memory_order_seq_cst) != read_;
  }

 private:
  BasicStreamRing<Memory>* ring_;
  const std::byte* bytes_;
  std::uint64_t read_ = 0;  // local copy; the value in shared memory is not trusted
};

}  // namespace mobula::internal::collective
