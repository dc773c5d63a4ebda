// Last time at which each node had an allocation, for planners that remove idle nodes.
// Thread: owner (one HeadCore).
#pragma once

#include <map>
#include <optional>

#include "base/id.h"
#include "base/time.h"

namespace mobula::internal::head {

class LastUse {
 public:
  // The node joined, or an allocation on it ended.
  void at(NodeId node, Time now) { times_[node] = now; }
  void forget(NodeId node) { times_.erase(node); }
  // Empty for an unknown node.
  std::optional<Time> of(NodeId node) const {
    const auto found = times_.find(node);
    return found == times_.end() ? std::nullopt : std::optional<Time>(found->second);
  }

 private:
  std::map<NodeId, Time> times_;
};

}  // namespace mobula::internal::head
