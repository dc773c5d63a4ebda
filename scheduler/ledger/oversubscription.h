// Oversubscription: nodes and bundles whose CPUs are in use twice, because a blocked task continued
// while others ran on the CPU that it had released. Nothing new starts there, but a granted slot
// still gets tasks from its lessee. After a delay, the excess slots are recalled, the latest
// granted first. Running tasks finish first.
// Thread: owner (one core).
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "scheduler/ledger/slot_accounting.h"
#include "scheduler/queues/recall.h"

namespace mobula::internal::scheduler {

class Oversubscription {
 public:
  // `recall_delay` is the duration of oversubscription before slots are recalled; idle ones return
  // without a recall.
  Oversubscription(const ClusterView& cluster, SlotAccounting& accounting, Duration recall_delay)
      : cluster_(cluster), accounting_(accounting), recall_after_(recall_delay) {}

  // The slot has reacquired its CPU.
  void resumed(const Slot& slot);
  void run(Time now, std::vector<Recall>& out);
  // Time of the next action of `run`; in the past for a pool that is new to it.
  std::optional<Time> due() const;

 private:
  // A separate ledger: of a node, or of a bundle.
  struct Pool {
    NodeId node;
    GroupId group;  // empty: the node
    std::int32_t bundle = -1;
    friend auto operator<=>(const Pool&, const Pool&) = default;
  };
  // Below 0 if oversubscribed; empty if the pool no longer exists.
  std::optional<Quantity> free_cpus(const Pool& pool) const;
  void recall_in(const Pool& pool, Time now, std::vector<Recall>& out);

  const ClusterView& cluster_;
  SlotAccounting& accounting_;
  Duration recall_after_;
  std::map<Pool, std::optional<Time>> over_;  // start of the oversubscription; empty: the next run
};

}  // namespace mobula::internal::scheduler
