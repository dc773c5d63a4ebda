#include "device/gpu/pinned_slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/logging/log.h"
#include "base/mutex.h"

namespace mobula::internal {

struct PinnedSlice::Pool {
  Pool(std::shared_ptr<const GpuContext> of, const PinnedSliceOptions& with)
      : context(std::move(of)), options(with) {
    options.slices = std::max(options.slices, options.reserved_slices + 1);
  }
  ~Pool() {
    if (block == nullptr) return;
    if (!pinned) {
      std::free(block);
      return;
    }
    const GpuContext::Current current(*context);
    (void)context->call().host_free(block);
  }

  Result<void> open();
  std::span<std::byte> take(std::size_t leave, std::function<void()> freed);
  void give_back(std::span<std::byte> bytes);

  const std::shared_ptr<const GpuContext> context;  // shared with all allocations on the device
  PinnedSliceOptions options;                       // constant after construction

  void* block = nullptr;  // used by the opening thread only

  Mutex mutex;
  bool pinned MOBULA_GUARDED_BY(mutex) = false;
  std::vector<std::byte*> free MOBULA_GUARDED_BY(mutex);
  // callbacks of callers without a slice
  std::vector<std::function<void()>> waiting MOBULA_GUARDED_BY(mutex);
};

Result<void> PinnedSlice::Pool::open() {
  if (block != nullptr) return {};
  const std::size_t size = options.slice_bytes * options.slices;
  void* made = nullptr;
  bool is_pinned = false;
  {
    const GpuContext::Current current(*context);
    if (!current.made()) return current.made();
    const auto status = context->call().host_allocate(&made, size, cuda_abi::host_portable);
    is_pinned = status == cuda_abi::success;
    if (!is_pinned) {
      made = nullptr;
      log_warn("staging of {} goes through memory that is not pinned, which is slower: {}",
               context->name(), context->driver().error("cuMemHostAlloc", status).text);
    }
  }
  constexpr std::size_t page = 4'096;
  if (made == nullptr) made = std::aligned_alloc(page, (size + page - 1) / page * page);
  if (made == nullptr) {
    return failure(
        ErrorCode::resource_exhausted,
        fmt::format("no memory for {} slices of {} bytes by which tensors of {} go to the host",
                    options.slices, options.slice_bytes, context->name()));
  }
  block = made;
  std::vector<std::function<void()>> callbacks;
  {
    const MutexLock lock(mutex);
    pinned = is_pinned;
    for (std::size_t i = options.slices; i-- > 0;) {
      free.push_back(static_cast<std::byte*>(made) + i * options.slice_bytes);
    }
    callbacks.swap(waiting);
  }
  for (const auto& each : callbacks) each();
  return {};
}

std::span<std::byte> PinnedSlice::Pool::take(std::size_t leave, std::function<void()> freed) {
  const MutexLock lock(mutex);
  if (free.size() <= leave) {
    if (freed) waiting.push_back(std::move(freed));
    return {};
  }
  std::byte* const at = free.back();
  free.pop_back();
  return {at, options.slice_bytes};
}

void PinnedSlice::Pool::give_back(std::span<std::byte> bytes) {
  std::vector<std::function<void()>> callbacks;
  {
    const MutexLock lock(mutex);
    free.push_back(bytes.data());
    if (free.size() > options.reserved_slices) callbacks.swap(waiting);
  }
  for (const auto& each : callbacks) each();
}

PinnedSlice::~PinnedSlice() {
  if (pool_) pool_->give_back(bytes_);
}

PinnedSlices::PinnedSlices(std::shared_ptr<const GpuContext> context, PinnedSliceOptions options)
    : pool_(std::make_shared<PinnedSlice::Pool>(std::move(context), options)) {}

Result<void> PinnedSlices::open() { return pool_->open(); }

PinnedSlice PinnedSlices::take() {
  PinnedSlice made;
  made.bytes_ = pool_->take(0, nullptr);
  if (!made.bytes_.empty()) made.pool_ = pool_;
  return made;
}

PinnedSlice PinnedSlices::take_spare(std::function<void()> freed) {
  PinnedSlice made;
  made.bytes_ = pool_->take(pool_->options.reserved_slices, std::move(freed));
  if (!made.bytes_.empty()) made.pool_ = pool_;
  return made;
}

std::uint64_t PinnedSlices::slice_bytes() const { return pool_->options.slice_bytes; }

std::size_t PinnedSlices::most_for_one() const {
  return std::max<std::size_t>((pool_->options.slices - pool_->options.reserved_slices) / 2, 1);
}

std::size_t PinnedSlices::free() const {
  const MutexLock lock(pool_->mutex);
  return pool_->free.size();
}

bool PinnedSlices::pinned() const {
  const MutexLock lock(pool_->mutex);
  return pool_->pinned;
}

}  // namespace mobula::internal
