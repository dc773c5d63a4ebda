// Jobs for the threads that run calls: continuations of deferred calls, due at once or at a time.
// Thread: owner, under the engine's lock.
// Not: running jobs (ExecutorShell), which happens without the lock.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/containers/block_pool.h"
#include "base/time.h"
#include "client/engine/callee/task_context.h"
#include "mobula/detail/deferred_results.h"

namespace mobula::internal::client {

class RunnerJobs {
 public:
  struct Row {
    std::shared_ptr<detail::Job> job;      // shared with the coroutine or promise that posted it
    std::shared_ptr<TaskContext> context;  // shared; context of the call
  };

  void add(Row row) { ready_.push_back(std::move(row)); }
  void add_at(Time at, Row row) { timed_.emplace(at, std::move(row)); }

  bool any_ready() const { return !ready_.empty(); }
  std::optional<Time> next_time() const {
    return timed_.empty() ? std::nullopt : std::optional(timed_.begin()->first);
  }
  // Removes the jobs that are due, in the order in which they became due.
  std::vector<Row> take_due(Time now) {
    while (!timed_.empty() && timed_.begin()->first <= now) {
      ready_.push_back(std::move(timed_.begin()->second));
      timed_.erase(timed_.begin());
    }
    return std::exchange(ready_, {});
  }

 private:
  std::vector<Row> ready_;
  std::multimap<Time, Row, std::less<>, Recycled<std::pair<const Time, Row>>> timed_;
};

}  // namespace mobula::internal::client
