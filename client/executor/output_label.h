// Writes the running task into the output of an executor. A label precedes the first line of its
// task, so that no line is attributed to another task. Tasks that follow quickly share a label
// without a task, and without a name if their names differ. A label allocates nothing: labels
// depend on time, so calls on a busy machine would allocate more.
// Thread: owner (the thread that runs tasks).
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/time.h"
#include "protocol/messages/output_label_line.h"

namespace mobula::internal::executor {

class OutputLabel {
 public:
  // `output` is duplicated, because the program may redirect its own descriptor.
  explicit OutputLabel(int output);
  // Called before the task runs in the process `own`, at `now`.
  void runs(ProcessId own, std::string_view name, TaskId task, Time now);

 private:
  // Limits the rate of writes, because a label costs a system call here and wakes the agent. Long
  // tasks and pauses earn writes. Tasks that follow quickly earn none: few of them would be named.
  struct Rate {
    Duration write_interval;
    int left = max_burst;
    Duration earned{};  // towards the next write
    void earn(Duration since_last_task);
    bool may_write();
  };
  void write(ProcessId own, std::string_view name, TaskId task = {});

  static constexpr int max_burst = 32;
  static constexpr Duration quick = 1ms;  // from the start of one task to the start of the next

  const Fd output_;
  Time began_{};  // start of the latest task
  OutputLabelText label_;
  std::string line_;                    // member only to reuse its memory
  Rate names_{.write_interval = 1ms};   // labels with another name
  Rate tasks_{.write_interval = 10ms};  // labels with another task of the same name
};

}  // namespace mobula::internal::executor
