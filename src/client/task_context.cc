#include "client/task_context.h"

namespace mobula::internal::client {
namespace {

thread_local std::shared_ptr<TaskContext> context_of_thread;

}  // namespace

std::shared_ptr<TaskContext> current_context() { return context_of_thread; }

ContextScope::ContextScope(std::shared_ptr<TaskContext> context)
    : outer_(std::exchange(context_of_thread, std::move(context))) {}

ContextScope::~ContextScope() { context_of_thread = std::move(outer_); }

}  // namespace mobula::internal::client
