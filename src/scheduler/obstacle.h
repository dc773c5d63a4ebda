// What is in the way of a request that could run if something ended: the slots whose return would let it
// start, on the node where that is least to wait for. For people who ask why something waits; decides
// nothing. A pure function over the books.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/id.h"
#include "scheduler/cluster_view.h"
#include "scheduler/slot_books.h"

namespace mobula::internal::scheduler {

struct Obstacle {
  NodeId node;
  std::int32_t bundle = -1;   // of the group that the request wants, if it wants one
  std::vector<SlotId> slots;  // all of them; soon to return first, actors and bundles last
};

// Nothing if it fits somewhere, if no node could ever hold it, or if other rules than what is taken keep
// it out. Of many nodes only the first `limit` that might serve are compared.
std::optional<Obstacle> least_obstacle(const ClusterView& cluster, const SlotBooks& books, const Ask& ask,
                                       std::size_t limit = 256);

}  // namespace mobula::internal::scheduler
