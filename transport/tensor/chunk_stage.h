// Moves device tensors through a transport of host memory. Each chunk passes through a slice of
// pinned host memory while it is in transit. The steps of a transfer (copy out, send, copy in)
// therefore overlap, and no transfer needs its whole size in host memory.
// Thread: any. Both directions have separate slices, so two processes that pull from each other
// cannot deadlock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/id.h"
#include "base/mutex.h"
#include "base/result.h"

namespace mobula::internal {

// The largest chunk that every stage accepts.
inline constexpr std::uint64_t staged_chunk_bytes = 4u << 20;

// A chunk in host memory, valid while `keeps` exists.
struct StagedChunk {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> keeps;  // shared, because posted tasks are copied
};

class ChunkStage {
 public:
  virtual ~ChunkStage() = default;

  // Holder: copies a device chunk to host memory when a slice is free. The device's thread calls
  // `done`. Errors: cancelled if `wanted` returns false at its turn, resource_exhausted if too many
  // reads are queued.
  virtual void read(std::span<const std::byte> from, std::function<bool()> wanted,
                    std::function<void(Result<StagedChunk>)> done) = 0;

  // Receiver: reserves a host buffer for a chunk from `holder`. One holder gets at most half of the
  // slices, so a silent holder does not block others. If none is free, it returns nullopt and calls
  // `freed` once when one may be free.
  virtual std::optional<StagedChunk> allocate(ProcessId holder, std::uint64_t size,
                                              std::function<void()> freed) = 0;
  // Copies a received chunk to the device. The device's thread calls `done` when it is complete.
  virtual void write(std::byte* to, StagedChunk chunk, std::function<void(Result<void>)> done) = 0;
};

// Counts the stages that access regions. The destructor of a transport waits for them.
class StageUses {
 public:
  // Starts a use, which ends when the returned object is destroyed.
  std::shared_ptr<const void> begin() {
    const MutexLock lock(counted_->mutex);
    ++counted_->uses;
    return {counted_.get(), [counted = counted_](const void*) {
              const MutexLock ended(counted->mutex);
              if (--counted->uses == 0) counted->changed.notify_all();
            }};
  }
  void wait() {
    MutexLock lock(counted_->mutex);
    while (counted_->uses != 0) counted_->changed.wait(lock);
  }

 private:
  struct Counted {
    Mutex mutex;
    CondVar changed;
    std::size_t uses MOBULA_GUARDED_BY(mutex) = 0;
  };
  std::shared_ptr<Counted> counted_ = std::make_shared<Counted>();  // shared with the uses
};

}  // namespace mobula::internal
