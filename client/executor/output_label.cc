#include "client/executor/output_label.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

namespace mobula::internal::executor {

OutputLabel::OutputLabel(int output)
    : output_(::fcntl(output, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)) {}

void OutputLabel::runs(ProcessId own, std::string_view name, TaskId task, Time now) {
  const bool same_name = name == label_.name;
  if (same_name && task == label_.task) return;
  Rate& rate = same_name ? tasks_ : names_;
  if (rate.may_write(now)) return write(own, name, task);
  // The last label would be wrong, and the rate limit does not permit an exact one.
  if (!same_name) {
    if (label_.name != several_tasks || !label_.task.empty()) write(own, several_tasks);
  } else if (!label_.task.empty()) {
    write(own, name);
  }
}

bool OutputLabel::Rate::may_write(Time now) {
  const auto gained = (now - counted) / write_interval;
  left = static_cast<int>(std::min<std::int64_t>(max_burst, left + gained));
  counted = left == max_burst ? now : counted + gained * write_interval;
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
