#include "client/task_context.h"

namespace mobula::internal::client {
namespace {

thread_local std::shared_ptr<TaskContext> context_of_thread;

}  // namespace

std::shared_ptr<const detail::ContextRecord> TaskContext::record() const {
  if (job.empty()) return of_process;
  auto record = std::make_shared<detail::ContextRecord>(*of_process);
  record->job_id = job.hex();
  record->task_id = task.hex();
  record->attempt = static_cast<int>(attempt);
  return record;
}

std::shared_ptr<TaskContext> current_context() { return context_of_thread; }

ContextScope::ContextScope(std::shared_ptr<TaskContext> context)
    : outer_(std::exchange(context_of_thread, std::move(context))) {}

ContextScope::~ContextScope() { context_of_thread = std::move(outer_); }

}  // namespace mobula::internal::client
