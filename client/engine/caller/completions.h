// Sinks of a process by number, and reports to sinks that run user code.
// Thread: the engine's lock is held, except for CallbackScope.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/containers/table.h"
#include "base/result.h"
#include "client/api/completion/callback_thread.h"
#include "client/api/completion/completion_source.h"
#include "client/core/client_commands.h"
#include "client/engine/callee/task_context.h"

namespace mobula::internal::client {

class Completions {
 public:
  using SinkPtr = std::shared_ptr<detail::CompletionSink>;
  struct Report {
    SinkPtr sink;  // shared with the subscription, which may end before the report runs
    std::uint64_t token = 0;
    ObjectId object;
    bool held = false;
  };

  // 0: the runtime has stopped.
  std::uint64_t add(SinkPtr sink);
  bool contains(std::uint64_t sink) const { return sinks_.contains(sink); }
  bool runs_code(std::uint64_t sink) const { return sinks_.at(sink)->runs_code(); }
  // Returns the sink, which the caller destroys after it released the lock.
  SinkPtr remove(std::uint64_t sink);
  // Passes the report to a queue, or keeps it until `take`.
  void report(const ObjectReported& report);
  bool has_pending() const { return !pending_.empty(); }
  // Removes at most `limit` reports, oldest first.
  std::vector<Report> take(std::size_t limit);
  // Removes all sinks, in order of their numbers. None can be added afterwards.
  std::vector<SinkPtr> end();
  bool ended() const { return ended_; }
  // Count of all reports.
  std::uint64_t reports() const { return reports_; }

 private:
  Table<std::uint64_t, SinkPtr> sinks_;
  std::vector<Report> pending_;
  std::size_t next_pending_ = 0;  // index of the oldest pending report
  std::uint64_t last_sink_ = 0;
  std::uint64_t reports_ = 0;
  bool ended_ = false;
};

using detail::in_callback;
Failure callback_failure(std::string_view operation);

// Marks the calling thread, and detaches it from the task that it may run.
class CallbackScope {
 public:
  CallbackScope() : no_task_(nullptr) {}

 private:
  ContextScope no_task_;
  detail::CallbackThread thread_;
};

}  // namespace mobula::internal::client
