#include "base/model/jobs/job_terms.h"

#include <fmt/format.h>

namespace mobula::internal {

Result<void> check_priority(const std::string& option, std::int64_t priority) {
  if (priority >= least_priority && priority <= greatest_priority) return {};
  return failure(ErrorCode::invalid_argument,
                 fmt::format("{}: from {} to {}, and it is {}", option, least_priority,
                             greatest_priority, priority));
}

Result<void> check_terms(const JobTerms& terms) {
  if (auto checked = check_priority("job_priority", terms.priority); !checked) return checked;
  if (terms.weight < 1 || terms.weight > greatest_weight) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("job_weight: from 1 to {}, and it is {}", greatest_weight, terms.weight));
  }
  if (terms.quota.size() > most_quota_entries) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("job_quota: at most {} resources, and it names {}",
                               most_quota_entries, terms.quota.size()));
  }
  for (const auto& [name, amount] : terms.quota) {
    if (!name.empty() && amount >= Quantity()) continue;
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("job_quota: amounts of named resources that are not negative, and it "
                    "has \"{}\": {}",
                    name, amount.to_string()));
  }
  return {};
}

}  // namespace mobula::internal
