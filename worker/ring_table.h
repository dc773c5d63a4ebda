// The pairs of rings between processes of this node: creates their memory, sends both ends over the
// links, and tracks the used positions of each process's doorbell. A position is free again only
// after its process has confirmed the end of the ring, because until then it may still poll the
// position.
// Thread: the agent's loop.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/id.h"
#include "transport/ring/doorbell.h"
#include "worker/process_links.h"
#include "worker/spin_governor.h"

namespace mobula::internal::worker {

class RingTable {
 public:
  // `max_rings_per_process`: pairs at a time for one process; further calls use sockets. `links`
  // outlives the table.
  RingTable(ProcessLinks& links, std::size_t max_rings_per_process);
  // Processes that join later receive the spin page with their doorbell. `limit` outlives the
  // table.
  void limit_spinners(SpinGovernor& limit) { spin_limit_ = &limit; }

  // Lets the process behind `link` have rings with other processes of its job, and sends its
  // doorbell. Processes of every job may call actors. Ignores closed links.
  void joined(LinkId link, ProcessId process, JobId job, bool is_actor = false);
  // Removes the process and notifies its peers.
  void left(LinkId link);

  // Handles OpenRingRequest of the process behind `caller`.
  void open(LinkId caller, ProcessId executor);
  // Opens a ring without a reply, for a caller that may be on another node.
  void open_for(ProcessId caller, ProcessId executor);
  // Handles RingClosed.
  void closed(LinkId link, std::uint64_t ring);

  std::size_t size() const { return rings_.size(); }

 private:
  struct Process {
    LinkId link = 0;
    JobId job;
    bool is_actor = false;
    DoorbellFiles doorbell;
    std::set<std::uint32_t> free_indices;  // free positions below `used`
    std::uint32_t used = 0;
    std::map<std::uint64_t, std::uint32_t> rings;  // position in this process's doorbell, by ring
  };
  struct Ring {
    ProcessId caller;
    ProcessId executor;
    bool ending = false;
  };

  bool open(ProcessId caller, ProcessId executor);
  std::optional<std::uint32_t> take_index(Process& process) const;
  void return_index(Process& process, std::uint64_t ring);
  void end(std::uint64_t ring, ProcessId by);

  ProcessLinks& links_;
  SpinGovernor* spin_limit_ = nullptr;
  bool said_ = false;  // the shortage of descriptors has been logged
  const std::size_t max_rings_;
  std::uint64_t last_ = 0;
  std::map<ProcessId, Process> processes_;
  std::map<LinkId, ProcessId> of_link_;
  std::map<std::uint64_t, Ring> rings_;
};

}  // namespace mobula::internal::worker
