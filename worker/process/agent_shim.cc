#include "worker/process/agent_shim.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>

#include "worker/process/orphans.h"
#include "worker/process/pipe.h"
#include "worker/process/watch/kill_group.h"

namespace mobula::internal::worker {
namespace {

constexpr int shim_did_not_start = 70;  // EX_SOFTWARE of sysexits.h

sigset_t shim_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) ::sigaddset(&set, signal);
  return set;
}

// Blocks the signals that the shim waits for.
class BlockedSignals {
 public:
  BlockedSignals() {
    const sigset_t set = shim_signals();
    ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { restore(); }
  void restore() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// Reaps all exited children. Returns the agent's status if it was among them.
std::optional<int> reap(pid_t agent) {
  std::optional<int> agent_status;
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    if (pid == agent) agent_status = status;
  }
  return agent_status;
}

int wait_for_agent(pid_t agent) {
  const sigset_t set = shim_signals();
  for (;;) {
    if (const auto status = reap(agent)) return *status;
    siginfo_t signal{};
    if (::sigwaitinfo(&set, &signal) < 0 || signal.si_signo == SIGCHLD) continue;
    // A terminal sends Ctrl-C to the whole process group, so the agent received it already.
    if (signal.si_code != SI_KERNEL) ::kill(agent, signal.si_signo);
  }
}

[[noreturn]] void become_agent(pid_t shim, const BlockedSignals& blocked, const Fd& go,
                               const std::function<int()>& agent_main) {
  blocked.restore();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  char byte = 0;
  // No process may start before the control group contains this one.
  if (::read(go.get(), &byte, 1) != 1 || ::getppid() != shim) ::_exit(shim_did_not_start);
  const int code = agent_main();
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace

int run_under_shim(const std::function<int()>& agent_main, Fd* of_agent,
                   const SparedProcesses& spares) {
  std::fflush(nullptr);
  const BlockedSignals blocked;
  // With an ignored SIGCHLD, inherited from some starters, the kernel would discard the agent's
  // status.
  ::signal(SIGCHLD, SIG_DFL);
  const pid_t self = ::getpid();
  auto go = make_pipe();
  if (!go || ::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return shim_did_not_start;
  auto group = spares ? std::nullopt : KillGroup::create();
  const pid_t agent = ::fork();
  if (agent < 0) return shim_did_not_start;
  if (agent == 0) {
    go->write.reset();
    become_agent(self, blocked, go->read, agent_main);
  }
  if (of_agent != nullptr) of_agent->reset();
  if (group && !group->add(agent)) group.reset();
  (void)!::write(go->write.get(), "g", 1);

  const int status = wait_for_agent(agent);
  end_all_children("mobula agent shim", group ? &*group : nullptr, spares);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace mobula::internal::worker
