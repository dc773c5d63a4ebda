// How much is served before something that waits, were as much freed as all of it needs: its place among
// others by whose turn it is. For people who ask; decides nothing. As of the last plan.
#pragma once

#include <cstdint>

#include "scheduler/groups.h"
#include "scheduler/pending_demands.h"

namespace mobula::internal::scheduler {

// Requests for one slot each, and placement groups. What no node present can hold, and what waits for the
// quota of another job, is before nobody.
struct QueuePlace {
  std::int64_t higher_priority = 0;  // requests of jobs of a higher priority
  std::int64_t smaller_share =
      0;  // of jobs of the same one, which hold less, or as much and wait for longer
  std::int64_t own_job = 0;  // of its own job, by priority, slots held and age
  std::int64_t groups = 0;
  bool at_least = false;  // there are more than are counted for one answer
  std::int64_t before() const { return higher_priority + smaller_share + own_job + groups; }
};

// Of the class; one that does not wait comes last among its equals.
QueuePlace place_of(const ClassKey& key, std::int32_t priority, const PendingDemands& pending,
                    const Groups& groups, const SlotBooks& books);
// Of a group, there or only asked about.
QueuePlace place_of(const GroupSpec& spec, const PendingDemands& pending, const Groups& groups,
                    const SlotBooks& books);

}  // namespace mobula::internal::scheduler
