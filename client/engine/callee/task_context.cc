#include "client/engine/callee/task_context.h"

namespace mobula::internal::client {
namespace {

thread_local std::shared_ptr<TaskContext> context_of_thread;

}  // namespace

std::shared_ptr<const detail::ContextRecord> TaskContext::record() const {
  std::call_once(queried_, [&] {
    if (job.empty()) {
      record_ = of_process;
      return;
    }
    auto made = std::make_shared<detail::ContextRecord>(*of_process);
    made->job_id = job.hex();
    made->task_id = task.hex();
    made->attempt = static_cast<int>(attempt);
    record_ = std::move(made);
  });
  return record_;
}

std::shared_ptr<TaskContext> current_context() { return context_of_thread; }

ContextScope::ContextScope(std::shared_ptr<TaskContext> context)
    : outer_(std::exchange(context_of_thread, std::move(context))) {}

ContextScope::~ContextScope() { context_of_thread = std::move(outer_); }

}  // namespace mobula::internal::client
