// Sends the items of one streaming call to its caller, each as soon as it is stored.
// Thread: any, one at a time. The call must run until its last item is given.
// Errors: of the store, of the value, and task_cancelled after a cancellation, which ends the call.
// Not: the end of the call (CallFinished); the source of the items.
#pragma once

#include <cstddef>
#include <memory>

#include "client/engine/process_runtime.h"
#include "client/executor/core/executor_core.h"
#include "mobula/detail/registry.h"

namespace mobula::internal::executor {

class ItemProducer final : public detail::ResultSink {
 public:
  // `run` must outlive the producer. `context` is the context of the call.
  ItemProducer(client::ProcessRuntime& runtime, const RunCall& run,
               std::shared_ptr<client::TaskContext> context)
      : runtime_(runtime), run_(run), context_(std::move(context)) {}

  // Stores and sends item `index`. Indices begin at 0 and have no gaps. Blocks while the consumers
  // are too far behind, which releases the CPU of the slot.
  detail::Done accept(std::size_t index, const detail::Outgoing& value) override;

 private:
  detail::Done wait_for_consumers(bool& needed);

  client::ProcessRuntime& runtime_;
  const RunCall& run_;
  const std::shared_ptr<client::TaskContext> context_;  // shared with the running call
  std::size_t next_ = 0;
};

}  // namespace mobula::internal::executor
