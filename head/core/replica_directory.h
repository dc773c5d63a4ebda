// Nodes that hold replicas of objects whose home is another node, so that a replica is found after
// the home has died.
// Thread: owner (one HeadCore). Not: holds, which agents keep.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "base/containers/table.h"
#include "protocol/messages/agent_control.h"

namespace mobula::internal::head {

struct HeadTables;

class ReplicaDirectory {
 public:
  explicit ReplicaDirectory(HeadTables& tables) : tables_(tables) {}

  // Keeps at most `max_copies_per_node` replicas. Further ones cannot be found.
  void changed(NodeId node, const ObjectCopies& news);
  void node_died(NodeId node) { on_node_.erase(node); }
  // Answers LocateObjectRequest of `node` with the other nodes that hold a replica.
  void locate(NodeId node, ObjectId object) const;
  std::int64_t count() const;

 private:
  HeadTables& tables_;
  Table<NodeId, std::set<ObjectId>> on_node_;
};

}  // namespace mobula::internal::head
