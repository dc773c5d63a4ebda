// What the thread that runs user code knows about the task it is in. One per running task, and one
// for the driver's main program. Ids of children and puts are derived from it, so a second run of the
// task makes the same ones. Counters may be used from any thread of the task.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/id.h"
#include "mobula/detail/runtime.h"

namespace mobula::internal::client {

struct TaskContext {
  JobId job;  // empty: a driver's main program, of which `of_process` says all
  TaskId task;
  std::uint32_t attempt = 0;
  std::uint64_t token = 0;  // of the executor core; 0 in drivers
  std::shared_ptr<const detail::ContextRecord> of_process;  // what all tasks here have in common
  // What user code sees: made when it asks first, and the same until the task is over, since it may keep
  // references into it.
  std::shared_ptr<const detail::ContextRecord> record() const;
  std::atomic<std::uint64_t> children{0};
  std::atomic<std::uint64_t> puts{0};
  std::atomic<std::uint64_t> actors{0};
  std::atomic<std::uint64_t> groups{0};
  std::atomic<bool> cancelled{false};
  std::atomic<bool> leave{false};  // exit_actor() was called

 private:
  mutable std::once_flag asked_;
  mutable std::shared_ptr<const detail::ContextRecord> record_;
};

// The calling thread's; null outside of tasks. Shells only: cores have no threads.
std::shared_ptr<TaskContext> current_context();

// Makes `context` the calling thread's until destroyed.
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
