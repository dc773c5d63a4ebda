// Calls of coroutines: suspension, resumption, and cancellation.
#include <mobula/awaitable.h>

#include <utility>

#include <mobula/errors.h>

#include "base/containers/block_pool.h"
#include "client/api/completion/callback_thread.h"

namespace mobula::detail {

namespace {

// Resumes one suspension. It does not keep the call, because a timer may outlive it.
class Wake final : public Job {
 public:
  Wake(std::weak_ptr<CoroutineCall> call, std::uint64_t suspension)
      : call_(std::move(call)), suspension_(suspension) {}
  void run() noexcept override {
    if (const auto call = call_.lock()) call->wake(suspension_);
  }

 private:
  const std::weak_ptr<CoroutineCall> call_;
  const std::uint64_t suspension_;
};

}  // namespace

void* take_block(std::size_t bytes) { return internal::RecycledBlocks::take(bytes); }
void give_block(void* block, std::size_t bytes) noexcept {
  internal::RecycledBlocks::give(block, bytes);
}

CoroutineCall::CoroutineCall(std::shared_ptr<DeferredResults> results)
    : results_(std::move(results)) {}
CoroutineCall::~CoroutineCall() = default;

void CoroutineCall::refuse_if_cancelled() const {
  if (cancelled_) throw TaskCancelledError("co_await: the call was cancelled");
}

std::shared_ptr<Job> CoroutineCall::suspend(std::coroutine_handle<> coroutine) {
  waiting_ = coroutine;
  return internal::make_pooled<Wake>(weak_from_this(), ++suspension_);
}

void CoroutineCall::wake(std::uint64_t suspension) {
  if (suspension == suspension_ && waiting_) resume(std::exchange(waiting_, {}));
}

void CoroutineCall::start(std::coroutine_handle<> coroutine) {
  self_ = shared_from_this();
  resume(coroutine);
  if (self_) results_->on_cancel(self_);
}

// The coroutine and its arguments end before the call does, so that refs which they held are not
// reported as kept.
void CoroutineCall::resume(std::coroutine_handle<> coroutine) {
  coroutine.resume();
  if (!ended_) return;
  const auto self = std::exchange(self_, nullptr);
  (void)results_->complete(finish());
}

void CoroutineCall::run() noexcept {
  if (!std::exchange(cancel_posted_, true)) return results_->post(shared_from_this());
  if (!self_) return;
  cancelled_ = true;
  if (waiting_) resume(std::exchange(waiting_, {}));
}

}  // namespace mobula::detail
