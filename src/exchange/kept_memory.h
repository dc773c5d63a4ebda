// What keeps the memory of a tensor that came in parts, for the tensors over it. When the last of them has gone, the
// exchange is notified, so that no process is given it any more. Any thread, under any lock but the exchange's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/id.h"
#include "base/mutex.h"

namespace mobula::internal::exchange {

// Whom to tell; nobody any more once it is closed. Shared by the exchange and what it has given out.
class Withdrawals {
 public:
  explicit Withdrawals(std::function<void(ObjectId, std::uint64_t copy)> notify) : notify_(std::move(notify)) {}
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
  std::function<void(ObjectId, std::uint64_t)> notify_ MOBULA_GUARDED_BY(mutex_);  // called with it held: only leaves word
};

class KeptMemory {
 public:
  KeptMemory(std::shared_ptr<const void> memory, ObjectId object, std::uint64_t copy, std::shared_ptr<Withdrawals> withdrawals)
      : memory_(std::move(memory)), object_(object), copy_(copy), withdrawals_(std::move(withdrawals)) {}
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;
  ~KeptMemory() { withdrawals_->withdraw(object_, copy_); }

 private:
  const std::shared_ptr<const void> memory_;  // shared with who is given it at this moment
  const ObjectId object_;
  const std::uint64_t copy_;
  const std::shared_ptr<Withdrawals> withdrawals_;
};

}  // namespace mobula::internal::exchange
