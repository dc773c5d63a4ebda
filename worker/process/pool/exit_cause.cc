#include "worker/process/pool/exit_cause.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstring>

namespace mobula::internal::worker {

std::string ExitCause::to_string() const {
  std::string text = signal == 0 ? fmt::format("exit code {}", exit_code)
                                 : fmt::format("signal {} ({})", signal, ::strsignal(signal));
  if (core) text += ", core dumped";
  if (oom) text += ", probably by the kernel for lack of memory";
  if (requested) text += ", as it was asked to end";
  return text;
}

ExitCause cause_of_status(int status) {
  ExitCause cause;
  if (WIFSIGNALED(status)) {
    cause.signal = WTERMSIG(status);
    cause.core = WCOREDUMP(status);
  } else {
    cause.exit_code = WEXITSTATUS(status);
  }
  return cause;
}

std::optional<ExitCause> reap_child(pid_t pid) {
  siginfo_t seen{};
  if (::waitid(P_PID, static_cast<id_t>(pid), &seen, WEXITED | WNOHANG) != 0 || seen.si_pid == 0) {
    return std::nullopt;
  }
  ExitCause cause;
  if (seen.si_code == CLD_EXITED) {
    cause.exit_code = seen.si_status;
  } else {
    cause.signal = seen.si_status;
    cause.core = seen.si_code == CLD_DUMPED;
  }
  return cause;
}

}  // namespace mobula::internal::worker
