// How a process ended, as its parent saw it. Value type.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/time.h"

namespace mobula::internal::worker {

struct ExitCause {
  int exit_code = 0;  // meaningful where `signal` is 0
  int signal = 0;
  bool core = false;   // a core file was written
  bool oom = false;    // a guess: killed while the kernel counted an out-of-memory kill
  bool asked = false;  // the agent had told it to end
  Duration ran{0};     // from its start as an executor

  // The program was never loaded: the loader, or `launch`, says so in this way.
  bool cannot_run() const { return signal == 0 && exit_code == 127; }
  // "exit code 3", "signal 11 (Segmentation fault), core dumped".
  std::string to_string() const;
};

// Of what waitpid has given.
ExitCause cause_of_status(int status);
// Reaps a child that has ended; nothing while it runs or if it is no child of this process.
std::optional<ExitCause> reap_child(pid_t pid);

}  // namespace mobula::internal::worker
