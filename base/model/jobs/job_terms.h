// Terms of a job relative to other jobs: priority, weight, and quota. Fixed when the job starts.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/fields.h"
#include "base/quantity.h"
#include "base/result.h"

namespace mobula::internal {

// Range of priorities of jobs, of tasks and actors within a job, and of placement groups. Higher
// priorities are served first.
inline constexpr std::int32_t least_priority = -1000;
inline constexpr std::int32_t greatest_priority = 1000;
inline constexpr std::int32_t greatest_weight = 10'000;
inline constexpr std::size_t most_quota_entries = 100;

struct JobTerms {
  std::int32_t priority = 0;
  std::int32_t weight = 1;  // fair-share weight among jobs of equal priority
  // largest amount of each resource that the job may hold at one time
  std::map<std::string, Quantity> quota{};
  MOBULA_FIELDS(priority, weight, quota);
  friend bool operator==(const JobTerms&, const JobTerms&) = default;
};

// Rejects values out of range with invalid_argument, which names the option.
Result<void> check_terms(const JobTerms& terms);
// Checks the priority of one task, actor, or placement group.
Result<void> check_priority(const std::string& option, std::int64_t priority);

}  // namespace mobula::internal
