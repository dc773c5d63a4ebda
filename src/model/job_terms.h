// What a job is entitled to beside others: whose turn it is, and how much it may hold. Fixed when the
// job starts. Plain values with a field list.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/fields.h"
#include "base/quantity.h"
#include "base/result.h"

namespace mobula::internal {

// Priorities of jobs, of tasks and actors within their job, and of placement groups; higher goes first.
inline constexpr std::int32_t least_priority = -1000;
inline constexpr std::int32_t greatest_priority = 1000;
inline constexpr std::int32_t greatest_weight = 10'000;
inline constexpr std::size_t most_quota_entries = 100;

struct JobTerms {
  std::int32_t priority = 0;
  std::int32_t weight = 1;  // jobs of one priority get shares in proportion
  std::map<std::string, Quantity> quota{};  // the most of a resource that it holds at once
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("priority", &JobTerms::priority), field("weight", &JobTerms::weight),
                 field("quota", &JobTerms::quota));
  }
  friend bool operator==(const JobTerms&, const JobTerms&) = default;
};

// Refuses (invalid_argument) what is out of range, naming the option.
Result<void> check_terms(const JobTerms& terms);
// The same for the priority of one task, actor or placement group.
Result<void> check_priority(const std::string& option, std::int64_t priority);

}  // namespace mobula::internal
