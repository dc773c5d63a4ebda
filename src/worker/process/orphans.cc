#include "worker/process/orphans.h"

#include <unistd.h>

#include "protocol/nursery_wire.h"
#include "worker/process/exit_cause.h"

namespace mobula::internal::worker {

std::vector<Orphan> find_orphans(const std::set<pid_t>& known, bool reap_ended) {
  std::vector<Orphan> orphans;
  const pid_t own_session = ::getsid(0);
  for (const pid_t child : children_of(::getpid())) {
    if (known.contains(child)) continue;
    const auto stat = read_stat(child);
    if (!stat || stat->session == own_session) continue;
    if (!stat->ended) {
      orphans.push_back({stat->stamp, stat->session, environment_of(child, process_variable)});
    } else if (reap_ended) {
      reap_child(child);
    }
  }
  return orphans;
}

void signal_tree(ProcessStamp root, int signal) {
  // Listed first: what is below a process that ends is found nowhere below it any more.
  const std::vector<ProcessStamp> below = descendants_of(root.pid);
  signal_process(root, signal);
  for (const ProcessStamp process : below) signal_process(process, signal);
}

}  // namespace mobula::internal::worker
