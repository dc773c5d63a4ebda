// How a transport of host memory that moves chunks brings those of a device: each chunk by way of a slice of
// host memory that is given for as long as it is on its way. So the steps of a transfer (out of the device,
// over the wire, into the device) overlap, and no transfer has all of its bytes in host memory. Slices of both
// directions are apart, so that processes that give each other tensors never wait in a circle. Any thread.
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

// The largest chunk that every stage takes, on every machine.
inline constexpr std::uint64_t staged_chunk_bytes = 4u << 20;

// A chunk in host memory, as long as `keeps` lives.
struct StagedChunk {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> keeps;  // shared: what is posted can be copied
};

class ChunkStage {
 public:
  virtual ~ChunkStage() = default;

  // Holder. Bytes of the device are brought to host memory, when there is a slice for them; `done` is told by
  // the device's thread. cancelled if they are not `wanted` any more when their turn comes, resource_exhausted
  // when too many wait.
  virtual void read(std::span<const std::byte> from, std::function<bool()> wanted,
                    std::function<void(Result<StagedChunk>)> done) = 0;

  // Receiver. Room for a chunk that will come from this holder, who gets half of it at most: one that is silent
  // does not keep others waiting. Without any `freed` is called once when there may be.
  virtual std::optional<StagedChunk> room(ProcessId holder, std::uint64_t size, std::function<void()> freed) = 0;
  // What has come goes to the device; `done` is told by the device's thread when it is there.
  virtual void write(std::byte* to, StagedChunk chunk, std::function<void(Result<void>)> done) = 0;
};

// Who still touches regions by stages: the end of a transport waits for them.
class StageUses {
 public:
  // One use, until what is returned is gone.
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
