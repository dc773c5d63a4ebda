// Counts of events since the start of the head, for metrics.
// Thread: owner (one HeadCore).
#pragma once

#include <array>
#include <cstdint>

#include "base/model/jobs/principal.h"
#include "head/core/view/metrics_writer.h"

namespace mobula::internal::head {

inline constexpr std::size_t end_kinds = static_cast<std::size_t>(EndKind::group_removed) + 1;

struct HeadCounts {
  std::array<std::uint64_t, end_kinds> executor_ends{};  // by EndKind
  SpanHistogram slot_grants;   // from the oldest waiting request of a demand to a grant for it
  SpanHistogram actor_starts;  // from the request of a slot until the constructor has returned
};

}  // namespace mobula::internal::head
