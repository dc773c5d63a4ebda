// Memory for what is pulled, whose pages have been touched before: a first touch costs several times
// the copy into it. Buffers that come back are kept, up to a limit, and given again; the ones that
// are wanted soon can be touched ahead by the threads that copy. For the loop's thread; a buffer may
// be read and written by any, and given back by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "transport/direct/copy_threads.h"

namespace mobula::internal {

struct ReceivePoolOptions {
  std::uint64_t kept_bytes = 512ull << 20;  // of buffers that nobody uses
  std::uint64_t max_bytes = 1ull << 42;     // of all
};

// Whole pages; given back with it. Outlives the pool if need be.
class ReceiveBuffer {
 public:
  ReceiveBuffer() = default;
  ReceiveBuffer(ReceiveBuffer&& other) noexcept;
  ReceiveBuffer& operator=(ReceiveBuffer&& other) noexcept;
  ReceiveBuffer(const ReceiveBuffer&) = delete;
  ReceiveBuffer& operator=(const ReceiveBuffer&) = delete;
  ~ReceiveBuffer();

  std::span<std::byte> bytes() const { return bytes_; }
  // All its pages were touched before it was taken.
  bool warm() const { return warm_; }

 private:
  friend class ReceivePool;
  struct Kept;
  std::shared_ptr<Kept> kept_;  // the pool's, shared with what was taken from it
  std::span<std::byte> whole_;  // a class of sizes
  std::span<std::byte> bytes_;
  bool warm_ = false;
};

class ReceivePool {
 public:
  explicit ReceivePool(ReceivePoolOptions options = {});

  // `size` bytes, at least 1, of what they were before. resource_exhausted beyond max_bytes, or
  // without memory.
  Result<ReceiveBuffer> take(std::uint64_t size);
  // Has a buffer for `size` bytes touched, so that take() finds it warm when `copies` has come to
  // it. Nothing is done beyond kept_bytes.
  void prepare(std::uint64_t size, CopyThreads& copies);

  std::uint64_t kept_bytes() const;
  std::uint64_t all_bytes() const;

 private:
  std::shared_ptr<ReceiveBuffer::Kept> kept_;
};

}  // namespace mobula::internal
