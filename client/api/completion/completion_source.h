// Interface between subscriptions of the public API and the runtime that reports to them.
// Thread: any, except where a function states its thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include <mobula/detail/error_record.h>
#include <mobula/detail/raw_id.h>
#include <mobula/detail/request.h>

namespace mobula::detail {

// Receives the reports of its subscriptions.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;

  // The object of the subscription with this token is ready. With the runtime's lock held: it takes
  // no lock but its own, and runs no user code.
  virtual void reported(std::uint64_t /*token*/) {}
  // True: `run` follows each report.
  virtual bool runs_code() const { return false; }
  // On the thread that runs the event loop, without a lock. One call at a time per process.
  virtual void run(std::uint64_t /*token*/) noexcept {}
  // The runtime stops: no report follows. Same thread rule as `run`.
  virtual void stopped() noexcept = 0;
};

struct SubscribeRequest {
  RawId object = {};
  std::uint64_t token = 0;
};

// The runtime's side. Sinks have numbers.
class CompletionSource {
 public:
  // Fails with not_initialized if the runtime stops.
  virtual Answer<std::uint64_t> add_sink(std::shared_ptr<CompletionSink> sink) = 0;
  // Subscribes to objects that the caller holds. Fails with not_initialized after `stopped`; then
  // some of the requests have no effect.
  virtual Done subscribe(std::uint64_t sink, std::span<const SubscribeRequest> requests,
                         bool fetch_local) = 0;
  // Afterwards the runtime does not report this subscription.
  virtual void unsubscribe(std::uint64_t sink, const SubscribeRequest& request) noexcept = 0;
  // Ends all subscriptions of the sink to these objects, and the sink. Afterwards nothing is
  // reported to it; `run` of an earlier report may follow.
  virtual void remove_sink(std::uint64_t sink, std::span<const RawId> objects) noexcept = 0;
  // Blocks until `ready`, which is called with the runtime's lock held, or until the deadline:
  // false. `waiting`, called with the same lock, returns the awaited objects for a warning. Fails
  // with task_cancelled in a cancelled task, invalid_request in a callback, and not_initialized
  // when the runtime stops.
  virtual Answer<bool> wait_for_report(const Deadline& deadline, const std::function<bool()>& ready,
                                       const std::function<std::vector<RawId>()>& waiting) = 0;

 protected:
  ~CompletionSource() = default;
};

}  // namespace mobula::detail
