#include "worker/process/orphans.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

#include "base/time.h"
#include "protocol/messages/fork_server_wire.h"
#include "worker/process/pool/exit_cause.h"
#include "worker/process/watch/kill_group.h"

namespace mobula::internal::worker {
namespace {

constexpr Duration complain_delay = 5s;

void complain_about_remaining(const char* who) {
  for (const pid_t child : children_of(::getpid())) {
    const auto line = fmt::format("{}: process {} was killed and has not ended yet\n", who, child);
    (void)!::write(STDERR_FILENO, line.data(), line.size());
  }
}

}  // namespace

std::vector<Orphan> find_orphans(const std::set<pid_t>& known, bool reap_ended) {
  std::vector<Orphan> orphans;
  const pid_t own_session = ::getsid(0);
  for (const pid_t child : children_of(::getpid())) {
    if (known.contains(child)) continue;
    const auto stat = read_stat(child);
    if (!stat || stat->session == own_session) continue;
    if (!stat->ended) {
      orphans.push_back({stat->identity, stat->session, environment_of(child, process_variable)});
    } else if (reap_ended) {
      reap_child(child);
    }
  }
  return orphans;
}

void signal_tree(PidIdentity root, int signal) {
  // Listed before the signal: descendants of an exited process have another parent.
  const std::vector<PidIdentity> below = descendants_of(root.pid);
  signal_process(root, signal);
  for (const PidIdentity process : below) signal_process(process, signal);
}

void end_all_children(const char* who, KillGroup* group, const SparedProcesses& spares) {
  sigset_t child_ended;
  ::sigemptyset(&child_ended);
  ::sigaddset(&child_ended, SIGCHLD);
  const Time begun = monotonic_now();
  bool complained = false;
  for (;;) {
    if (group != nullptr) group->kill_all();
    bool spares_all = static_cast<bool>(spares);
    for (const pid_t child : children_of(::getpid())) {
      if (spares && spares(child)) continue;
      spares_all = false;
      ::kill(child, SIGKILL);
    }
    if (spares_all) return;
    int status = 0;
    pid_t reaped = 0;
    while ((reaped = ::waitpid(-1, &status, WNOHANG)) > 0) {
    }
    if (reaped < 0 && errno == ECHILD) return;
    const timespec pause{0, 20'000'000};
    ::sigtimedwait(&child_ended, nullptr, &pause);
    if (!complained && monotonic_now() - begun > complain_delay) {
      complain_about_remaining(who);
      complained = true;
    }
  }
}

}  // namespace mobula::internal::worker
