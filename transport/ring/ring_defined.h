// Function bodies of ring.h, for sources that instantiate its templates with a memory.
// Thread: as ring.h.
#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "transport/ring/ring.h"

namespace mobula::internal {
namespace ring_piece {

// Word before each piece: its length, and whether the record continues. Pieces begin at multiples
// of the word, so it never wraps around.
using Head = std::uint64_t;
inline constexpr std::uint64_t more_follows = std::uint64_t{1} << 63;
inline constexpr std::size_t step = sizeof(Head);

inline std::size_t rounded(std::size_t bytes) { return (bytes + step - 1) / step * step; }

}  // namespace ring_piece

template <class Memory>
std::size_t BasicRingWriter<Memory>::space() {
  using namespace ring_piece;
  std::uint64_t used = written_ - taken_seen_;
  if (Memory::ring_capacity - used >= Memory::least_piece + step) {
    return Memory::ring_capacity - used;
  }
  const std::uint64_t taken = header_->taken.load(std::memory_order_seq_cst);
  used = written_ - taken;
  if (taken < taken_seen_ || used > Memory::ring_capacity) {
    broken_ = true;
    return 0;
  }
  taken_seen_ = taken;
  return Memory::ring_capacity - used;
}

template <class Memory>
void BasicRingWriter<Memory>::copy_in(std::uint64_t at, std::span<const std::byte> bytes) {
  const std::size_t begin = at % Memory::ring_capacity;
  const std::size_t first = std::min(bytes.size(), Memory::ring_capacity - begin);
  Memory::write(data_ + begin, bytes.first(first));
  if (first < bytes.size()) Memory::write(data_, bytes.subspan(first));
}

template <class Memory>
std::size_t BasicRingWriter<Memory>::write(std::span<const std::byte> record, std::size_t from) {
  using namespace ring_piece;
  const std::uint64_t before = written_;
  while (!broken_ && from < record.size()) {
    const std::size_t left = record.size() - from;
    const std::size_t free = space();
    if (free < step + std::min(left, Memory::least_piece)) break;
    const std::size_t piece = std::min(left, free - step);
    const Head head = piece | (piece < left ? more_follows : 0);
    copy_in(written_, std::as_bytes(std::span(&head, 1)));
    copy_in(written_ + step, record.subspan(from, piece));
    written_ += step + rounded(piece);
    from += piece;
  }
  if (written_ != before) header_->written.store(written_, std::memory_order_release);
  return from;
}

// Either the reader sees the request after it has read, or this call sees the progress of the
// reader. The four accesses need one total order.
template <class Memory>
bool BasicRingWriter<Memory>::request_space() {
  using namespace ring_piece;
  header_->hungry.store(1, std::memory_order_seq_cst);
  if (space() < step + Memory::least_piece) return false;
  header_->hungry.store(0, std::memory_order_relaxed);
  return true;
}

template <class Memory>
void BasicRingReader<Memory>::copy_out(std::uint64_t at, std::span<std::byte> bytes) const {
  const std::size_t begin = at % Memory::ring_capacity;
  const std::size_t first = std::min(bytes.size(), Memory::ring_capacity - begin);
  Memory::read(data_ + begin, bytes.first(first));
  if (first < bytes.size()) Memory::read(data_, bytes.subspan(first));
}

template <class Memory>
Failure BasicRingReader<Memory>::broke(const char* why) {
  broken_ = true;
  return failure(ErrorCode::corrupt, fmt::format("a ring's writer broke it: {}", why));
}

template <class Memory>
Result<bool> BasicRingReader<Memory>::read(std::vector<std::byte>& record) {
  using namespace ring_piece;
  if (broken_) return broke("it was broken before");
  for (;;) {
    if (written_seen_ == taken_) {
      const std::uint64_t written = header_->written.load(std::memory_order_acquire);
      if (written == taken_) return false;
      if (written < taken_ || written - taken_ > Memory::ring_capacity) {
        return broke("more was written than it holds");
      }
      written_seen_ = written;
    }
    const std::uint64_t available = written_seen_ - taken_;
    Head head = 0;
    if (available < step) return broke("a piece has no length");
    copy_out(taken_, std::as_writable_bytes(std::span(&head, 1)));
    const bool more = (head & more_follows) != 0;
    const std::uint64_t length = head & ~more_follows;
    if (length == 0 || length > Memory::ring_capacity - step ||
        step + rounded(length) > available) {
      return broke("a piece is longer than the written bytes");
    }
    std::vector<std::byte>& into = pieces_.empty() && !more ? record : pieces_;
    const std::size_t before = &into == &record ? 0 : pieces_.size();
    if (before + length > max_record_bytes_) return broke("a record is too long");
    into.resize(before + length);
    copy_out(taken_ + step, std::span(into).subspan(before));
    taken_ += step + rounded(length);
    header_->taken.store(taken_, std::memory_order_release);
    if (more) continue;
    if (&into == &pieces_) {
      record.swap(pieces_);
      pieces_.clear();
    }
    return true;
  }
}

template <class Memory>
bool BasicRingReader<Memory>::take_hunger() {
  header_->taken.store(taken_, std::memory_order_seq_cst);
  return header_->hungry.load(std::memory_order_seq_cst) != 0 &&
         header_->hungry.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace mobula::internal
