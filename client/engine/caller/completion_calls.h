// The runtime's side of subscriptions of the public API: sinks, subscriptions to objects, and the
// wait of a queue.
// Thread: any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "client/api/completion/completion_source.h"

namespace mobula::internal::client {

class ProcessEngine;

class CompletionCalls final : public detail::CompletionSource {
 public:
  // Blocks the calling thread as `wait` does: until `ready`, called with the engine's lock held, or
  // until the deadline (false).
  using Waiting = std::function<std::vector<detail::RawId>()>;
  using Wait = std::function<detail::Answer<bool>(const detail::Deadline& deadline,
                                                  const std::function<bool()>& ready,
                                                  const Waiting& waiting)>;

  CompletionCalls(ProcessEngine& engine, Wait wait) : engine_(engine), wait_(std::move(wait)) {}

  detail::Answer<std::uint64_t> add_sink(std::shared_ptr<detail::CompletionSink> sink) override;
  detail::Done subscribe(std::uint64_t sink, std::span<const detail::SubscribeRequest> requests,
                         bool fetch_local) override;
  void unsubscribe(std::uint64_t sink, const detail::SubscribeRequest& request) noexcept override;
  void remove_sink(std::uint64_t sink, std::span<const detail::RawId> objects) noexcept override;
  detail::Answer<bool> wait_for_report(const detail::Deadline& deadline,
                                       const std::function<bool()>& ready,
                                       const Waiting& waiting) override;

 private:
  ProcessEngine& engine_;  // lives as long as the runtime, which owns this object
  const Wait wait_;
};

}  // namespace mobula::internal::client
