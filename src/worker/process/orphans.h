// Processes that executors have left behind: children that came to the agent, as the nearest
// subreaper, when their own parent ended; and the end of all that is below a process. Any thread.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "worker/process/process_tree.h"

namespace mobula::internal::worker {

struct Orphan {
  ProcessStamp stamp;
  pid_t session = 0;
  std::optional<std::string> process_mark;  // hex of the executor it comes from, if it kept it
};

// Children of this process that are not among `known` and not of its own session (those belong to
// other code of the agent). Ended ones are not listed; with `reap_ended` they are also cleared
// away.
std::vector<Orphan> find_orphans(const std::set<pid_t>& known, bool reap_ended);

// The process and all that it has below it.
void signal_tree(ProcessStamp root, int signal);

class KillGroup;

// Kills and reaps until this process, a subreaper with SIGCHLD blocked, has no child left. What a killed process
// leaves behind becomes a child in turn, so nothing can escape. Waits as long as it takes: a device that is still
// held must not be offered again; `who` says on stderr what it waits for. `group`: kills them together, if given.
void end_all_children(const char* who, KillGroup* group);

}  // namespace mobula::internal::worker
