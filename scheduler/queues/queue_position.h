// Position in the queue: the number of slots that are served before a waiting request, if enough
// capacity of its kind were freed. For display, as of the last plan.
// Thread: owner.
// Not: decisions.
#pragma once

#include <cstdint>

#include "scheduler/groups/groups.h"
#include "scheduler/queues/pending_demands.h"

namespace mobula::internal::scheduler {

// Counts requests for one slot each, and placement groups. Infeasible requests and requests that
// wait for the quota of another job precede nothing.
struct QueuePosition {
  std::int64_t higher_priority = 0;  // requests of jobs of a higher priority
  std::int64_t smaller_share =
      // requests of jobs of equal priority with a smaller share, or an equal share and a longer
      // wait
      0;
  std::int64_t own_job = 0;  // requests of the same job, by priority, held slots, and age
  std::int64_t groups = 0;
  bool at_least = false;  // more exist than one reply counts
  std::int64_t before() const { return higher_priority + smaller_share + own_job + groups; }
};

// Position of a class. A class that does not wait is last among its equals.
QueuePosition position_of(const ClassKey& key, std::int32_t priority, const PendingDemands& pending,
                          const Groups& groups, const SlotAccounting& accounting);
// Position of a group, existing or hypothetical.
QueuePosition position_of(const GroupSpec& spec, const PendingDemands& pending,
                          const Groups& groups, const SlotAccounting& accounting);

}  // namespace mobula::internal::scheduler
