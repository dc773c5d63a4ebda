// One direction of bytes between two processes of a machine, in shared memory. One writer sends
// records to one reader without system calls.
// Thread: one at a time for each end. Errors: `corrupt`, or broken(), if the counts of the other
// side are invalid; the ring is then permanently broken.
// Not: blocking. On a full ring the writer retries after the reader's notification (`take_hunger`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "transport/local/process_memory.h"

namespace mobula::internal {

// A record is published by one store after it was written completely. A writer that dies therefore
// leaves no partial record, and a reader that dies leaves a ring that fills up. Each side trusts
// only its own count: it reads the values of the other side once and checks them. A record without
// enough space is split into pieces.

// Header at the start of the memory of a ring. Each member has its own cache line.
template <class Memory>
struct BasicRingHeader {
  template <class T>
  using Atomic = typename Memory::template Atomic<T>;
  alignas(64) Atomic<std::uint64_t> written;  // bytes published; only the writer stores it
  alignas(64) Atomic<std::uint64_t> taken;    // bytes read; only the reader stores it
  alignas(64) Atomic<std::uint32_t> hungry;   // the writer waits for space
};

template <class Memory>
class BasicRingWriter {
 public:
  using Header = BasicRingHeader<Memory>;

  // `data` has the capacity of the ring. Both are zero at first and outlive the writer.
  BasicRingWriter(Header* header, std::byte* data) : header_(header), data_(data) {}
  // `memory` has `ring_memory_bytes` and is aligned as its first part, the header.
  explicit BasicRingWriter(std::byte* memory)
      : BasicRingWriter(reinterpret_cast<Header*>(memory), memory + sizeof(Header)) {}

  // Publishes as much of `record` (not empty) from byte `from` on as fits. Returns the end of the
  // published part: `record.size()` if the record is complete. Otherwise the caller must pass the
  // same record again.
  std::size_t write(std::span<const std::byte> record, std::size_t from = 0);
  // Called after an incomplete write. Returns true if space is available now. Otherwise the reader
  // will notify the writer (`take_hunger`).
  bool request_space();
  // True if the count of the reader is invalid.
  bool broken() const { return broken_; }

 private:
  std::size_t space();
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

  // Replaces `record` by the next complete record. Returns false if none is available. Errors:
  // corrupt if the counts or lengths of the writer are invalid; the reader then stops.
  Result<bool> read(std::vector<std::byte>& record);
  // Returns true if the writer waits for space. Called once after a series of reads.
  bool take_hunger();

 private:
  void copy_out(std::uint64_t at, std::span<std::byte> bytes) const;
  Failure broke(const char* why);

  Header* header_;
  const std::byte* data_;
  const std::size_t max_record_bytes_;
  std::uint64_t taken_ = 0;
  std::uint64_t written_seen_ = 0;
  std::vector<std::byte> pieces_;  // pieces of an incomplete record
  bool broken_ = false;
};

using RingHeader = BasicRingHeader<ProcessMemory>;
using RingWriter = BasicRingWriter<ProcessMemory>;
using RingReader = BasicRingReader<ProcessMemory>;
extern template class BasicRingWriter<ProcessMemory>;
extern template class BasicRingReader<ProcessMemory>;

// A power of two. The memory of a ring has this size plus its header.
inline constexpr std::size_t ring_capacity = ProcessMemory::ring_capacity;
inline constexpr std::size_t ring_memory_bytes = sizeof(RingHeader) + ring_capacity;

}  // namespace mobula::internal
