// The pairs of rings between processes of this node: makes their memory, hands the ends out over the
// links, and knows which places of a process's doorbell are taken. A place is free again when its
// process has said so, not before: until then it may still look there. For the loop's thread alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/id.h"
#include "transport/doorbell.h"
#include "worker/process_links.h"
#include "worker/spin_limit.h"

namespace mobula::internal::worker {

class RingTable {
 public:
  // At most so many pairs at a time for one process; further calls go by socket. `links` outlives it.
  RingTable(ProcessLinks& links, std::size_t max_rings_per_process);
  // Processes that join from here on get its page with their doorbell. Outlives the table, too.
  void limit_spinners(SpinLimit& limit) { spin_limit_ = &limit; }

  // The process behind `link` may have rings with others of its job; it gets its doorbell. Nothing
  // happens for a link that is gone.
  void joined(LinkId link, ProcessId process, JobId job);
  // Its peers are told.
  void left(LinkId link);

  // As OpenRing of the process behind `caller`.
  void open(LinkId caller, ProcessId executor);
  // Without an answer where there can be none: for a caller that may be elsewhere.
  void open_for(ProcessId caller, ProcessId executor);
  // As RingClosed.
  void closed(LinkId link, std::uint64_t ring);

  std::size_t size() const { return rings_.size(); }

 private:
  struct Process {
    LinkId link = 0;
    JobId job;
    DoorbellFiles doorbell;
    std::set<std::uint32_t> free_places;  // below `places`
    std::uint32_t places = 0;
    std::map<std::uint64_t, std::uint32_t> rings;  // with its place in this process's doorbell
  };
  struct Ring {
    ProcessId caller;
    ProcessId executor;
    bool ending = false;
  };

  bool open(ProcessId caller, ProcessId executor);
  std::optional<std::uint32_t> take_place(Process& process) const;
  void give_place(Process& process, std::uint64_t ring);
  void end(std::uint64_t ring, ProcessId by);

  ProcessLinks& links_;
  SpinLimit* spin_limit_ = nullptr;
  bool said_ = false;  // that descriptors are short
  const std::size_t max_rings_;
  std::uint64_t last_ = 0;
  std::map<ProcessId, Process> processes_;
  std::map<LinkId, ProcessId> of_link_;
  std::map<std::uint64_t, Ring> rings_;
};

}  // namespace mobula::internal::worker
