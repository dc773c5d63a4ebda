#include "client/executor/output_label.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "protocol/messages/output_label_line.h"

namespace mobula::internal::executor {

OutputLabel::OutputLabel(int output)
    : output_(::fcntl(output, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)) {}

void OutputLabel::runs(const std::string& task, Time now) {
  if (task == label_) return;
  if (may_write(now)) return write(task);
  // The last label would be wrong, and the rate limit does not permit a new one.
  if (label_ != several_tasks) write(several_tasks);
}

bool OutputLabel::may_write(Time now) {
  const auto gained = (now - std::exchange(counted_, now)) / write_interval;
  left_ = static_cast<int>(std::min<std::int64_t>(max_burst, left_ + gained));
  if (left_ == 0) return false;
  --left_;
  return true;
}

void OutputLabel::write(std::string_view label) {
  label_ = label;
  if (!output_) return;
  const std::string line = output_label_line(label);
  (void)!::write(output_.get(), line.data(), line.size());
}

}  // namespace mobula::internal::executor
