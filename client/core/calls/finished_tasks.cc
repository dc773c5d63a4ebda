#include "client/core/calls/finished_tasks.h"

namespace mobula::internal::client {

FinishedTasks::Counts& FinishedTasks::counts_of(const CopyOnWrite<CallForm>& form) {
  if (last_counts_ != nullptr && last_form_.is_same(form)) return *last_counts_;
  auto at = counts_.find(form->name);
  if (at == counts_.end()) {
    const bool within = counts_.size() < max_names;
    at = counts_.try_emplace(within ? form->name : other_names).first;
  }
  last_form_ = form;
  last_counts_ = &at->second;
  return at->second;
}

void FinishedTasks::add(EndedTask task) {
  Counts& counts = counts_of(task.form);
  if (!task.failed) {
    ++counts.finished;
    finished_.push_back(std::move(task));
    if (finished_.size() > max_finished) finished_.pop_front();
    return;
  }
  ++counts.failed;
  ++failures_;
  if (task.error_bytes > max_error_bytes) {
    task.error = CopyOnWrite<Payload>();
    task.error_bytes = 0;
  }
  error_bytes_ += task.error_bytes;
  failed_.push_back(std::move(task));
  while (failed_.size() > max_failed || error_bytes_ > max_all_error_bytes) {
    error_bytes_ -= failed_.front().error_bytes;
    failed_.pop_front();
  }
}

}  // namespace mobula::internal::client
