// Blockers of a request that could run if slots ended: the slots whose return would let it start,
// on the node with the fewest. For explanations.
// Thread: owner (pure function over the ledgers).
// Not: decisions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/id.h"
#include "scheduler/cluster_view.h"
#include "scheduler/ledger/slot_accounting.h"

namespace mobula::internal::scheduler {

struct Blockers {
  NodeId node;
  std::int32_t bundle = -1;   // bundle of the requested group, or -1
  std::vector<SlotId> slots;  // all of them; the next to return first, actors and bundles last
};

// Empty if the request fits, if no node could ever hold it, or if rules other than capacity reject
// it. Compares only the first `limit` candidate nodes.
std::optional<Blockers> least_blockers(const ClusterView& cluster, const SlotAccounting& accounting,
                                       const RequestShape& shape, std::size_t limit = 256);

}  // namespace mobula::internal::scheduler
