// Start identities (a program with an environment) that could not be started on a node. An entry
// expires after a backoff, which doubles if the next attempt fails too.
// Thread: owner (SlotTable). Not: the scheduler's copy, which the owner updates.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/containers/deadline_map.h"
#include "base/id.h"
#include "base/time.h"

namespace mobula::internal::head {

class FailedStarts {
 public:
  struct Key {
    NodeId node;
    ProgramId identity;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  static constexpr Duration backoff_initial = std::chrono::seconds(30);
  static constexpr Duration backoff_max = std::chrono::minutes(30);

  void add(Time now, const Key& key);
  // Entries that have expired: another attempt is due.
  std::vector<Key> take_expired(Time now);
  std::optional<Time> next_deadline() const { return deadlines_.earliest(); }

 private:
  struct Entry {
    Duration backoff{0};
    bool in_force = false;  // false: kept only for its backoff
  };
  std::map<Key, Entry> entries_;
  DeadlineMap<Key> deadlines_;  // end of each entry
};

}  // namespace mobula::internal::head
