#include "client/core/ended_tasks.h"

namespace mobula::internal::client {

void EndedTasks::add(EndedTask task) {
  auto at = counts_.find(task.fact.name);
  if (at == counts_.end()) {
    const bool room = counts_.size() < max_names;
    at = counts_.try_emplace(room ? task.fact.name : other_names).first;
  }
  if (task.fact.phase != TaskPhase::failed) {
    ++at->second.finished;
    finished_.push_back(std::move(task));
    if (finished_.size() > max_finished) finished_.pop_front();
    return;
  }
  ++at->second.failed;
  if (task.error_bytes > max_error_bytes) {
    task.fact.error = {};
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
