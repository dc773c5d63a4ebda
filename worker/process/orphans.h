// Orphans of executors: children that the agent, as the nearest subreaper, inherited when their
// parent exited. Also ends all descendants of a process.
// Thread: any.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "worker/process/watch/process_tree.h"

namespace mobula::internal::worker {

struct Orphan {
  PidIdentity identity;
  pid_t session = 0;
  std::optional<std::string> process_mark;  // hex id of its executor, if still set
};

// Children of this process that are not in `known` and not in its session; children in its session
// belong to other code of the agent. Zombies are not listed; with `reap_ended` they are reaped.
std::vector<Orphan> find_orphans(const std::set<pid_t>& known, bool reap_ended);

// Signals the process and all its descendants.
void signal_tree(PidIdentity root, int signal);

class KillGroup;

// Returns true for a child that `end_all_children` leaves alive, with its descendants.
using SparedProcesses = std::function<bool(pid_t)>;

// Kills and reaps until this process has no child except `spares`; it must be a subreaper with
// SIGCHLD blocked. Orphans of killed processes become children in turn, so none escapes. Waits
// without a limit, because a device that is in use must not be offered again; `who` names the
// waiter on stderr. `group`: kills all at once, if not null.
void end_all_children(const char* who, KillGroup* group, const SparedProcesses& spares = {});

}  // namespace mobula::internal::worker
