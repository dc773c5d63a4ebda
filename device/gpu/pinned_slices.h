// Bounded pool of pinned host memory in slices of one size, for copies between a device and the
// host. All slices are allocated together on `open`. If the driver cannot pin memory (a limit on
// locked memory), the slices are ordinary memory, which is slower.
// Thread: any; one internal lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/gpu/gpu_context.h"

namespace mobula::internal {

struct PinnedSliceOptions {
  std::uint64_t slice_bytes = 4u << 20;
  std::size_t slices = 8;
  // Slices that `take_spare` never returns, reserved for callers that release them soon.
  std::size_t reserved_slices = 2;
};

class PinnedSlices;

// One slice; the destructor returns it. May outlive the pool.
class PinnedSlice {
 public:
  PinnedSlice() = default;
  PinnedSlice(PinnedSlice&& other) noexcept : pool_(std::move(other.pool_)), bytes_(other.bytes_) {}
  PinnedSlice& operator=(PinnedSlice&& other) noexcept {
    pool_.swap(other.pool_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PinnedSlice();

  explicit operator bool() const { return pool_ != nullptr; }
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  friend class PinnedSlices;
  struct Pool;
  std::shared_ptr<Pool> pool_;  // shared by the pool and its slices
  std::span<std::byte> bytes_;
};

class PinnedSlices {
 public:
  PinnedSlices(std::shared_ptr<const GpuContext> context, PinnedSliceOptions options = {});

  // Allocates the memory once. All calls must come from one thread that may call CUDA. Fails with
  // resource_exhausted without memory.
  Result<void> open();

  // Empty if no slice is free, or before `open`.
  PinnedSlice take();
  // Like `take`, except for the last `reserved_slices`. If no slice is available, `freed` is called
  // once when a slice returns, on the thread that returns it.
  PinnedSlice take_spare(std::function<void()> freed = nullptr);

  std::uint64_t slice_bytes() const;
  // Half of the slices that `take_spare` can return, at least one.
  std::size_t most_for_one() const;
  std::size_t free() const;  // 0 before `open`
  bool pinned() const;       // valid after `open`

 private:
  std::shared_ptr<PinnedSlice::Pool> pool_;
};

}  // namespace mobula::internal
