// Keeps waiting tasks with the strategy Spread for slots that start on other nodes, so that the
// first ready slot does not run a whole burst. One exists per demand class.
// Thread: owner (Dispatcher).
// Not: the choice of nodes, which the head makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/id.h"
#include "base/time.h"

namespace mobula::internal::client {

class SpreadTurns {
 public:
  // Longest wait of tasks for the reply of the head, and for a slot that starts.
  static constexpr Duration report_timeout = 500ms;
  static constexpr Duration start_timeout = 5s;
  // Shortest pause between growing demands.
  static constexpr Duration demand_interval = 2ms;

  // A demand with more tasks than the previous one was sent. The head replies with DemandPlanned.
  void demanded(std::uint64_t version, Time now) { awaited_.push_back({version, now}); }
  // The reply. `starting`: slots that the head granted and that this process does not know yet.
  void planned(std::uint64_t version, const std::vector<SlotId>& starting, Time now);
  // The slot is ready, or lost.
  void settled(SlotId slot) { starting_.erase(slot); }
  // Invalidates earlier state, because the agent or the head changed.
  void forget() {
    awaited_.clear();
    starting_.clear();
  }
  // Drops state that timed out.
  void expire(Time now);

  // True if all of `waiting` tasks are kept for slots that start.
  bool keeps(std::size_t waiting) const { return waiting <= starting_.size(); }
  // True if the head has replied to a demand that counts a task queued at `since`. Until then, only
  // new slots and slots that were idle at `since` run it. `unsent`: tasks wait that no demand has
  // counted.
  bool is_planned(Time since, bool unsent) const {
    return since < planned_ || (awaited_.empty() && !unsent);
  }
  void took(NodeId node) { ++calls_[node]; }
  std::uint64_t calls_on(NodeId node) const {
    const auto at = calls_.find(node);
    return at == calls_.end() ? 0 : at->second;
  }

  std::optional<Time> next_deadline() const;

 private:
  struct Awaited {
    std::uint64_t version = 0;
    Time sent;
  };
  std::deque<Awaited> awaited_;            // growing demands without a reply
  Time planned_;                           // time of the latest demand with a reply
  std::map<SlotId, Time> starting_;        // deadline after which no task is kept for the slot
  std::map<NodeId, std::uint64_t> calls_;  // calls sent to slots of each node
};

}  // namespace mobula::internal::client
