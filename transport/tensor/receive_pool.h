// Buffers for pulled bytes whose pages are already populated, because the first touch of a page
// costs several times the copy into it. Released buffers are kept, up to a limit, and reused. The
// copy threads can populate buffers ahead of their use.
// Thread: the event loop. Any thread may access or release a buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "transport/tensor/copy_threads.h"

namespace mobula::internal {

struct ReceivePoolOptions {
  std::uint64_t kept_bytes = 512ull << 20;  // total of unused buffers
  std::uint64_t max_bytes = 1ull << 42;     // total of all buffers
};

// Whole pages, released by the destructor. May outlive the pool.
class ReceiveBuffer {
 public:
  ReceiveBuffer() = default;
  ReceiveBuffer(ReceiveBuffer&& other) noexcept;
  ReceiveBuffer& operator=(ReceiveBuffer&& other) noexcept;
  ReceiveBuffer(const ReceiveBuffer&) = delete;
  ReceiveBuffer& operator=(const ReceiveBuffer&) = delete;
  ~ReceiveBuffer();

  std::span<std::byte> bytes() const { return bytes_; }
  // True if all pages were populated before take().
  bool warm() const { return warm_; }

 private:
  friend class ReceivePool;
  struct Kept;
  std::shared_ptr<Kept> kept_;  // shared by the pool and its buffers
  std::span<std::byte> whole_;  // size rounded up to its class
  std::span<std::byte> bytes_;
  bool warm_ = false;
};

class ReceivePool {
 public:
  explicit ReceivePool(ReceivePoolOptions options = {});

  // Takes a buffer of `size` bytes (at least 1) with undefined content. Errors: resource_exhausted
  // above max_bytes or without memory.
  Result<ReceiveBuffer> take(std::uint64_t size);
  // Populates a buffer of `size` bytes through `copies`, so that a later take() finds it warm. Does
  // nothing above kept_bytes.
  void prepare(std::uint64_t size, CopyThreads& copies);

  std::uint64_t kept_bytes() const;
  std::uint64_t all_bytes() const;

 private:
  std::shared_ptr<ReceiveBuffer::Kept> kept_;  // shared with its buffers
};

}  // namespace mobula::internal
