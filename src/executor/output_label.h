// Names in an executor's output the task that prints. A label is written into the output itself, before the
// first line of the task, so that no line is named after another task. Tasks that take turns quickly share one label.
// Thread: the one that runs tasks.
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/time.h"

namespace mobula::internal::executor {

class OutputLabel {
 public:
  // `output` is duplicated: the program may redirect its own.
  explicit OutputLabel(int output);
  // Before a task of this name runs.
  void runs(const std::string& task, Time now);

 private:
  bool may_write(Time now);
  void write(std::string_view label);

  const Fd output_;
  std::string label_;
  int left_ = max_burst;
  Time counted_{};

  // A label costs a system call here and wakes the agent.
  static constexpr int max_burst = 32;
  static constexpr Duration write_interval = 1ms;
};

}  // namespace mobula::internal::executor
