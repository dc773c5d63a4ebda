// Slots with devices that end. A request for a fraction of a device waits briefly for them.
// Otherwise an idle slot, which still holds its fraction, would push the request to another device,
// so that two devices are used in part.
// Thread: owner (Scheduler). Not: the ledgers, in which a slot counts until it is released.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/time.h"

namespace mobula::internal::scheduler {

class EndingDevices {
 public:
  // No request waits for the slot after `deadline`.
  void add(SlotId slot, NodeId node, Time deadline) { slots_.try_emplace(slot, node, deadline); }
  void released(SlotId slot) { slots_.erase(slot); }
  // Drops slots whose deadline has passed. Returns their nodes.
  std::vector<NodeId> expire(Time now) {
    std::vector<NodeId> nodes;
    std::erase_if(slots_, [&](const auto& each) {
      if (each.second.second > now) return false;
      nodes.push_back(each.second.first);
      return true;
    });
    return nodes;
  }

  bool any_on(NodeId node) const {
    for (const auto& [slot, at] : slots_) {
      if (at.first == node) return true;
    }
    return false;
  }
  std::optional<Time> next_deadline() const {
    std::optional<Time> earliest;
    for (const auto& [slot, at] : slots_) {
      if (!earliest || at.second < *earliest) earliest = at.second;
    }
    return earliest;
  }

 private:
  std::map<SlotId, std::pair<NodeId, Time>> slots_;
};

}  // namespace mobula::internal::scheduler
