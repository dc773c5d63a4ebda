#include "head/core/slots/failed_starts.h"

#include <algorithm>

namespace mobula::internal::head {

void FailedStarts::add(Time now, const Key& key) {
  Entry& entry = entries_[key];
  if (entry.in_force) return;
  entry.backoff =
      entry.backoff == Duration(0) ? backoff_initial : std::min(2 * entry.backoff, backoff_max);
  entry.until = now + entry.backoff;
  entry.in_force = true;
}

std::vector<FailedStarts::Key> FailedStarts::take_expired(Time now) {
  std::vector<Key> expired;
  for (auto at = entries_.begin(); at != entries_.end();) {
    Entry& entry = at->second;
    if (entry.until > now) {
      ++at;
    } else if (entry.in_force) {
      entry.in_force = false;
      entry.until = now + entry.backoff;
      expired.push_back((at++)->first);
    } else {
      at = entries_.erase(at);
    }
  }
  return expired;
}

std::optional<Time> FailedStarts::next_deadline() const {
  std::optional<Time> first;
  for (const auto& [key, entry] : entries_)
    first = std::min(first.value_or(entry.until), entry.until);
  return first;
}

}  // namespace mobula::internal::head
