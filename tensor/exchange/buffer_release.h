// Keeps the memory of a tensor that was received in chunks, and that the exchange offers to further
// readers. The release of the last tensor over the memory notifies the exchange, which then
// withdraws the offer.
// Thread: any. The caller may hold any lock except the lock of the exchange.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/id.h"
#include "base/mutex.h"

namespace mobula::internal::exchange {

// Forwards notifications until `close()`. The exchange and all its RetainedBuffers share it.
class ReleaseNotifier {
 public:
  explicit ReleaseNotifier(std::function<void(ObjectId, std::uint64_t copy)> notify)
      : notify_(std::move(notify)) {}
  void withdraw(ObjectId object, std::uint64_t copy) {
    const MutexLock lock(mutex_);
    if (notify_) notify_(object, copy);
  }
  void close() {
    const MutexLock lock(mutex_);
    notify_ = nullptr;
  }

 private:
  Mutex mutex_;
  // called with the lock held: it must only enqueue
  std::function<void(ObjectId, std::uint64_t)> notify_ MOBULA_GUARDED_BY(mutex_);
};

// The owner of the memory. `copy` is the number of the replica that the exchange offers.
class RetainedBuffer {
 public:
  RetainedBuffer(std::shared_ptr<const void> memory, ObjectId object, std::uint64_t copy,
                 std::shared_ptr<ReleaseNotifier> withdrawals)
      : memory_(std::move(memory)),
        object_(object),
        copy_(copy),
        withdrawals_(std::move(withdrawals)) {}
  RetainedBuffer(const RetainedBuffer&) = delete;
  RetainedBuffer& operator=(const RetainedBuffer&) = delete;
  ~RetainedBuffer() { withdrawals_->withdraw(object_, copy_); }

 private:
  const std::shared_ptr<const void> memory_;  // shared with readers of an active offer
  const ObjectId object_;
  const std::uint64_t copy_;
  const std::shared_ptr<ReleaseNotifier> withdrawals_;
};

}  // namespace mobula::internal::exchange
