// State of the task that a thread runs. One exists per running task, and one for the driver's main
// program. Ids of child tasks and puts are derived from it, so a repeated run of the task makes the
// same ids.
// Thread: any thread of the task (counters are atomic).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/id.h"
#include "mobula/detail/runtime.h"

namespace mobula::detail {
class Job;
}  // namespace mobula::detail

namespace mobula::internal::client {

struct TaskContext {
  JobId job;  // empty: main program of a driver, described by `of_process` alone
  TaskId task;
  std::uint32_t attempt = 0;
  std::uint64_t token = 0;  // token of the executor core; 0 in drivers
  std::shared_ptr<const detail::ContextRecord> of_process;  // shared by all tasks of the process
  // The record for user code. It is made on first use and kept until the task ends, because user
  // code may keep references into it.
  std::shared_ptr<const detail::ContextRecord> record() const;
  std::atomic<std::uint64_t> children{0};
  std::atomic<std::uint64_t> puts{0};
  std::atomic<bool> cancelled{false};
  std::atomic<bool> leave{false};      // exit_actor() was called
  std::atomic<bool> used_self{false};  // current_actor() was called
  // Untyped calls: `running` and then `cancelling` while the host runs the call.
  enum class HostCallState : std::uint8_t { none, running, cancelling, complete };
  std::atomic<HostCallState> host_call{HostCallState::none};
  // Deferred calls: runs at cancellation; under the engine's lock.
  std::weak_ptr<detail::Job> cancel_job;

 private:
  mutable std::once_flag queried_;
  mutable std::shared_ptr<const detail::ContextRecord> record_;
};

// Context of the calling thread; null outside of tasks. For shells only, because cores have no
// threads.
std::shared_ptr<TaskContext> current_context();

// Sets the context of the calling thread until destroyed.
class ContextScope {
 public:
  explicit ContextScope(std::shared_ptr<TaskContext> context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  std::shared_ptr<TaskContext> outer_;
};

}  // namespace mobula::internal::client
