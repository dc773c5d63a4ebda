// Host memory that a device reads and writes by itself, for bytes on their way between the two: slices of one
// size, a bounded number of them, taken from the driver together with the first. Where the driver pins none
// (a limit on locked memory), the slices are ordinary memory, slower and otherwise the same. Who finds none
// free is told when one is. Any thread; a lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "gpu/gpu_context.h"

namespace mobula::internal {

struct PinnedSliceOptions {
  std::uint64_t slice_bytes = 4u << 20;
  std::size_t slices = 8;
  // Of these, so many are not given by take_spare(): for who lets go of them soon, whatever others do.
  std::size_t kept_back = 2;
};

class PinnedSlices;

// One slice; given back with it. Outlives the pool if need be.
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
  std::shared_ptr<Pool> pool_;  // shared with what was taken from it
  std::span<std::byte> bytes_;
};

class PinnedSlices {
 public:
  PinnedSlices(std::shared_ptr<const GpuContext> context, PinnedSliceOptions options = {});

  // Takes the memory, once: always by the same thread, which may call CUDA. resource_exhausted without any.
  Result<void> open();

  // Empty where none is free, or before open().
  PinnedSlice take();
  // The same, but not of the last `kept_back`. Then `freed`, if given, is called once when a slice comes back,
  // by whichever thread brings it.
  PinnedSlice take_spare(std::function<void()> freed = nullptr);

  std::uint64_t slice_bytes() const;
  // Half of what take_spare() gives, at least one.
  std::size_t most_for_one() const;
  std::size_t free() const;  // none before open()
  bool pinned() const;       // after open()

 private:
  std::shared_ptr<PinnedSlice::Pool> pool_;
};

}  // namespace mobula::internal
