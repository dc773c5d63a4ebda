// One direction of bytes between two processes of a machine, in shared memory: records from a single
// writer to a single reader, without system calls. A record is published by one store after it was
// written whole, so a writer that dies leaves nothing half-read, and one that dies as a reader leaves
// a ring that fills up. Each side trusts its own count alone: what the other side wrote is read once
// and checked, and a ring whose counts make no sense is broken for good.
//
// Records that do not fit at once go in pieces. Neither side waits: a full ring is the writer's to
// come back to, once the reader has told it (`take_hunger`). Each end is for one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "transport/process_memory.h"

namespace mobula::internal {

// What stands at the beginning of a ring's memory, its parts in cache lines of their own.
template <class Memory>
struct BasicRingHeader {
  template <class T>
  using Atomic = typename Memory::template Atomic<T>;
  alignas(64) Atomic<std::uint64_t> written;  // bytes ever published; the writer's
  alignas(64) Atomic<std::uint64_t> taken;    // bytes ever read; the reader's
  alignas(64) Atomic<std::uint32_t> hungry;   // the writer waits for room
};

template <class Memory>
class BasicRingWriter {
 public:
  using Header = BasicRingHeader<Memory>;

  // `data` has the ring's capacity in bytes. Both are zeros at first, and outlive the writer.
  BasicRingWriter(Header* header, std::byte* data) : header_(header), data_(data) {}
  // `memory` has `ring_memory_bytes`, aligned as the header, which stands first in it.
  explicit BasicRingWriter(std::byte* memory)
      : BasicRingWriter(reinterpret_cast<Header*>(memory), memory + sizeof(Header)) {}

  // Publishes as much of `record` (not empty) as there is room for, from its byte `from` on, and
  // returns how far it got: `record.size()` when all of it is out. Until then the same record has to
  // be given again.
  std::size_t write(std::span<const std::byte> record, std::size_t from = 0);
  // After a write that did not get to the end: whether there is room by now. If not, the reader will
  // tell (`take_hunger`).
  bool ask_for_room();
  // The reader's count makes no sense.
  bool broken() const { return broken_; }

 private:
  std::size_t room();
  void copy_in(std::uint64_t at, std::span<const std::byte> bytes);

  Header* header_;
  std::byte* data_;
  std::uint64_t written_ = 0;
  std::uint64_t taken_seen_ = 0;
  bool broken_ = false;
};

template <class Memory>
class BasicRingReader {
 public:
  using Header = BasicRingHeader<Memory>;

  // As for the writer. A record above `max_record_bytes` breaks the ring.
  BasicRingReader(Header* header, const std::byte* data, std::size_t max_record_bytes)
      : header_(header), data_(data), max_record_bytes_(max_record_bytes) {}
  BasicRingReader(std::byte* memory, std::size_t max_record_bytes)
      : BasicRingReader(reinterpret_cast<Header*>(memory), memory + sizeof(Header),
                        max_record_bytes) {}

  // Replaces `record` by the next whole record; false when there is none yet. corrupt when the
  // writer's counts or lengths make no sense: nothing more is read.
  Result<bool> read(std::vector<std::byte>& record);
  // Whether the writer waits for room, which there is now. Asked once after reading.
  bool take_hunger();

 private:
  void copy_out(std::uint64_t at, std::span<std::byte> bytes) const;
  Failure broke(const char* why);

  Header* header_;
  const std::byte* data_;
  const std::size_t max_record_bytes_;
  std::uint64_t taken_ = 0;
  std::uint64_t written_seen_ = 0;
  std::vector<std::byte> pieces_;  // of a record that is not whole yet
  bool broken_ = false;
};

using RingHeader = BasicRingHeader<ProcessMemory>;
using RingWriter = BasicRingWriter<ProcessMemory>;
using RingReader = BasicRingReader<ProcessMemory>;
extern template class BasicRingWriter<ProcessMemory>;
extern template class BasicRingReader<ProcessMemory>;

// A power of two; the memory of a ring is this and its header.
inline constexpr std::size_t ring_capacity = ProcessMemory::ring_capacity;
inline constexpr std::size_t ring_memory_bytes = sizeof(RingHeader) + ring_capacity;

}  // namespace mobula::internal
