#include "client/executor/output_label.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace mobula::internal::executor {

OutputLabel::OutputLabel(int output)
    : output_(::fcntl(output, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)) {}

void OutputLabel::runs(ProcessId own, std::string_view name, TaskId task, Time now) {
  if (const Duration gap = now - std::exchange(began_, now); gap >= quick) {
    names_.earn(gap);
    tasks_.earn(gap);
  }
  const bool same_name = name == label_.name;
  if (same_name && task == label_.task) return;
  Rate& rate = same_name ? tasks_ : names_;
  if (rate.may_write()) return write(own, name, task);
  // The last label would be wrong, and the rate limit does not permit an exact one.
  if (!same_name) {
    if (label_.name != several_tasks || !label_.task.empty()) write(own, several_tasks);
  } else if (!label_.task.empty()) {
    write(own, name);
  }
}

void OutputLabel::Rate::earn(Duration since_last_task) {
  earned += std::min(since_last_task, write_interval * max_burst);
  left = static_cast<int>(std::min<std::int64_t>(max_burst, left + earned / write_interval));
  earned = left == max_burst ? Duration(0) : earned % write_interval;
}

bool OutputLabel::Rate::may_write() {
  if (left == 0) return false;
  --left;
  return true;
}

void OutputLabel::write(ProcessId own, std::string_view name, TaskId task) {
  label_.name = name;
  label_.task = task;
  if (!output_) return;
  write_output_label(line_, own, label_);
  (void)!::write(output_.get(), line_.data(), line_.size());
}

}  // namespace mobula::internal::executor
