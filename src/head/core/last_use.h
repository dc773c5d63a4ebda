// When something was last booked on each node, for those who give back nodes that are idle. Owned by
// one HeadCore; not thread-safe.
#pragma once

#include <map>
#include <optional>

#include "base/id.h"
#include "base/time.h"

namespace mobula::internal::head {

class LastUse {
 public:
  // The node has come, or something that was booked there has ended.
  void at(NodeId node, Time now) { times_[node] = now; }
  void forget(NodeId node) { times_.erase(node); }
  // Nothing for a node that is not there.
  std::optional<Time> of(NodeId node) const {
    const auto found = times_.find(node);
    return found == times_.end() ? std::nullopt : std::optional<Time>(found->second);
  }

 private:
  std::map<NodeId, Time> times_;
};

}  // namespace mobula::internal::head
