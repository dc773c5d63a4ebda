// Writes the name of the running task into the output of an executor. A label precedes the first
// line of its task, so that no line is attributed to another task. Tasks that alternate quickly
// share one label.
// Thread: owner (the thread that runs tasks).
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/time.h"

namespace mobula::internal::executor {

class OutputLabel {
 public:
  // `output` is duplicated, because the program may redirect its own descriptor.
  explicit OutputLabel(int output);
  // Called before a task of this name runs.
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
