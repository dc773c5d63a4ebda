// How many tensors went by which path, and objects from store to store, since this head started: what processes and
// agents say of themselves, and what those have left behind that are gone. Owned by one HeadCore; not thread-safe.
#pragma once

#include <map>
#include <vector>

#include "base/id.h"
#include "protocol/transfer_facts.h"

namespace mobula::internal::head {

using PathCounts = std::map<DirectPath, TransferCount>;

class TransferCounts {
 public:
  // Of one that lives: a process of the node, or its agent by its incarnation. Whole counts, in the place of those it
  // said before. What is no path, or comes twice, is passed over. Whether it says anything new.
  bool told(ProcessId teller, NodeId node, const std::vector<TransferCount>& counts);
  // Its counts stay with the node it was on.
  void ended(ProcessId teller);

  // Of what came to each node, to its store and to its processes.
  std::map<NodeId, PathCounts> by_node() const;
  PathCounts of_cluster() const;

 private:
  static constexpr std::size_t max_nodes = 4096;  // beyond it, the counts of nodes are kept in one

  struct Live {
    NodeId node;
    PathCounts counts;
  };
  std::map<ProcessId, Live> live_;
  std::map<NodeId, PathCounts> ended_;  // the empty id: of nodes that nobody knows any more
};

}  // namespace mobula::internal::head
