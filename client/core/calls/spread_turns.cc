#include "client/core/calls/spread_turns.h"

#include <algorithm>

namespace mobula::internal::client {

void SpreadTurns::planned(std::uint64_t version, const std::vector<SlotId>& starting, Time now) {
  if (version >= awaited_) awaited_ = 0;
  std::map<SlotId, Time> next;
  for (const SlotId slot : starting) {
    const auto known = starting_.find(slot);
    next.emplace(slot, known == starting_.end() ? now + start_timeout : known->second);
  }
  starting_ = std::move(next);
}

void SpreadTurns::expire(Time now) {
  if (awaited_ != 0 && report_deadline_ <= now) awaited_ = 0;
  std::erase_if(starting_, [now](const auto& each) { return each.second <= now; });
}

std::optional<Time> SpreadTurns::next_deadline() const {
  std::optional<Time> earliest;
  if (awaited_ != 0) earliest = report_deadline_;
  for (const auto& [slot, deadline] : starting_) {
    if (!earliest || deadline < *earliest) earliest = deadline;
  }
  return earliest;
}

}  // namespace mobula::internal::client
