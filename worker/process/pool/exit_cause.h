// The end of a process as its parent observed it. Value type.
// Thread: any.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/time.h"

namespace mobula::internal::worker {

struct ExitCause {
  int exit_code = 0;  // valid if `signal` is 0
  int signal = 0;
  bool core = false;       // a core file was written
  bool oom = false;        // a guess: killed while the kernel counted an out-of-memory kill
  bool requested = false;  // the agent had requested the end
  Duration ran{0};         // time since its start as an executor

  // The program was never loaded: the loader, or `launch`, reports it with this code.
  bool cannot_run() const { return signal == 0 && exit_code == 127; }
  // "exit code 3", "signal 11 (Segmentation fault), core dumped".
  std::string to_string() const;
};

// Converts a status of waitpid.
ExitCause cause_of_status(int status);
// Reaps a child that has exited. Empty while it runs, or if it is no child of this process.
std::optional<ExitCause> reap_child(pid_t pid);

}  // namespace mobula::internal::worker
