#include <mobula/context.h>

#include <utility>

namespace mobula {

Context::Context(std::shared_ptr<const detail::ContextRecord> record)
    : record_(std::move(record)),
      job_id(record_->job_id),
      task_id(record_->task_id),
      actor_id(record_->actor_id),
      node_id(record_->node_id),
      attempt(record_->attempt),
      was_restarted(record_->was_restarted),
      name_space(record_->name_space) {}

void* Context::stream() const { return detail::runtime()->stream(); }

bool Context::cancelled() const { return detail::runtime()->cancelled(); }

Context current() { return Context(detail::runtime()->context()); }

void exit_actor() {
  detail::require(detail::runtime()->exit_actor());
  throw detail::ExitActor{};
}

}  // namespace mobula
