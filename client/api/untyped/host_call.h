// One call that a host runs. Its dynamic::Call and its runner share it: the call completes it. If
// it is incomplete when the host returns, the runner defers it and leaves the rest to the call.
// Thread: any.
// Not: the execution of the call (client/executor/untyped_call.h).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <mobula/detail/deferred_results.h>
#include <mobula/detail/registry.h>
#include <mobula/dynamic.h>

#include "base/containers/block_pool.h"
#include "base/model/task.h"
#include "base/mutex.h"
#include "client/engine/callee/task_context.h"

namespace mobula::internal::client {

class HostCall {
 public:
  // `form` supplies the names. `results` is null for constructors. `results` and `class_name`
  // outlive the completion of the call. `self` is the actor of a method.
  HostCall(CopyOnWrite<CallForm> form, std::string_view class_name,
           std::shared_ptr<TaskContext> context, detail::ResultSink* results, void* self,
           std::span<detail::StoredValue> arguments);

  // ---- for dynamic::Call
  const dynamic::Callable& callable() const { return callable_; }
  dynamic::Caller caller() const;
  std::span<const dynamic::StoredPayload> arguments() const { return arguments_; }
  void* self() const { return self_; }
  dynamic::Returns returns() const {
    return {.count = static_cast<int>(form_->num_returns), .streaming = is_stream()};
  }
  const TaskContext& context() const { return *context_; }
  void created(std::shared_ptr<void> actor);
  // False if the call is complete.
  bool give(std::size_t index, const dynamic::Payload& value);
  void complete(const char* operation, detail::Outcome outcome);
  void done();
  // The call object is destroyed.
  void drop();

  // ---- for the runner
  struct Completion {
    detail::Outcome outcome;
    std::shared_ptr<void> actor;  // constructors without an error
  };
  // An exception left the host: its outcome replaces that of a dropped call.
  void end_by_exception(detail::Outcome outcome);
  // The host returned. Empty: the call is deferred. Blocks if a constructor is incomplete.
  std::optional<Completion> complete_or_defer();

 private:
  bool is_stream() const { return form_->stream.window != 0; }
  bool give_item(std::size_t index, const dynamic::Payload& value);
  std::string missing() const MOBULA_REQUIRES(mutex_);
  // Returns the deferred call that the caller completes without the lock, or null.
  std::shared_ptr<detail::DeferredResults> set_complete(detail::Outcome& outcome)
      MOBULA_REQUIRES(mutex_);

  const CopyOnWrite<CallForm> form_;
  const std::shared_ptr<TaskContext> context_;  // shared with the engine and the runner
  const dynamic::Callable callable_;
  void* const self_;
  const PooledVector<dynamic::StoredPayload> arguments_;

  Mutex mutex_;
  CondVar completed_;
  // Null for constructors, and once the call is deferred.
  detail::ResultSink* results_ MOBULA_GUARDED_BY(mutex_);
  // Shared with the runner until it leaves the call.
  std::shared_ptr<detail::DeferredResults> deferred_ MOBULA_GUARDED_BY(mutex_);
  std::vector<bool> given_ MOBULA_GUARDED_BY(mutex_);
  std::size_t items_ MOBULA_GUARDED_BY(mutex_) = 0;   // count of given items of a stream
  bool is_giving_ MOBULA_GUARDED_BY(mutex_) = false;  // a thread uses `results_` for an item
  std::shared_ptr<void> actor_ MOBULA_GUARDED_BY(mutex_);
  bool is_complete_ MOBULA_GUARDED_BY(mutex_) = false;
  bool is_dropped_ MOBULA_GUARDED_BY(mutex_) = false;
  Completion completion_ MOBULA_GUARDED_BY(mutex_);
};

}  // namespace mobula::internal::client
