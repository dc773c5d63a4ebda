// Which nodes have copies of objects whose home is elsewhere, so that a copy is found when the home
// has died. Knows nothing of holds: those are the agents'. Owned by one HeadCore; not thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "base/table.h"
#include "protocol/agent_control.h"

namespace mobula::internal::head {

struct Parts;

class CopyTable {
 public:
  explicit CopyTable(Parts& parts) : parts_(parts) {}

  // At most `max_copies_per_node` are kept; further ones cannot be found.
  void changed(NodeId node, const ObjectCopies& news);
  void node_died(NodeId node) { on_node_.erase(node); }
  // Answers LocateObject of `node` with the other nodes that have a copy.
  void locate(NodeId node, ObjectId object) const;
  std::int64_t count() const;

 private:
  Parts& parts_;
  Table<NodeId, std::set<ObjectId>> on_node_;
};

}  // namespace mobula::internal::head
