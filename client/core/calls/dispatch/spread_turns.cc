#include "client/core/calls/dispatch/spread_turns.h"

#include <algorithm>

namespace mobula::internal::client {

void SpreadTurns::planned(std::uint64_t version, const std::vector<SlotId>& starting, Time now) {
  for (; !awaited_.empty() && awaited_.front().version <= version; awaited_.pop_front()) {
    planned_ = awaited_.front().sent;
  }
  std::map<SlotId, Time> next;
  for (const SlotId slot : starting) {
    const auto known = starting_.find(slot);
    next.emplace(slot, known == starting_.end() ? now + start_timeout : known->second);
  }
  starting_ = std::move(next);
}

void SpreadTurns::expire(Time now) {
  for (; !awaited_.empty() && awaited_.front().sent + report_timeout <= now; awaited_.pop_front()) {
    planned_ = awaited_.front().sent;
  }
  std::erase_if(starting_, [now](const auto& each) { return each.second <= now; });
}

std::optional<Time> SpreadTurns::next_deadline() const {
  std::optional<Time> earliest;
  if (!awaited_.empty()) earliest = awaited_.front().sent + report_timeout;
  for (const auto& [slot, deadline] : starting_) {
    if (!earliest || deadline < *earliest) earliest = deadline;
  }
  return earliest;
}

}  // namespace mobula::internal::client
