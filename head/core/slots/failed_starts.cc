#include "head/core/slots/failed_starts.h"

#include <algorithm>

namespace mobula::internal::head {

void FailedStarts::add(Time now, const Key& key) {
  Entry& entry = entries_[key];
  if (entry.in_force) return;
  entry.backoff =
      entry.backoff == Duration(0) ? backoff_initial : std::min(2 * entry.backoff, backoff_max);
  deadlines_.set(key, now + entry.backoff);
  entry.in_force = true;
}

std::vector<FailedStarts::Key> FailedStarts::take_expired(Time now) {
  std::vector<Key> expired;
  for (const Key& key : deadlines_.take_due(now)) {
    Entry& entry = entries_.at(key);
    if (!std::exchange(entry.in_force, false)) {
      entries_.erase(key);
      continue;
    }
    deadlines_.set(key, now + entry.backoff);
    expired.push_back(key);
  }
  return expired;
}

}  // namespace mobula::internal::head
