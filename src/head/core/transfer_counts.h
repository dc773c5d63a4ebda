// How many tensors went by which path, since this head started: what processes say of themselves, and what
// those have left behind that are gone. Owned by one HeadCore; not thread-safe.
#pragma once

#include <map>
#include <vector>

#include "base/id.h"
#include "protocol/transfer_facts.h"

namespace mobula::internal::head {

struct Parts;

using PathCounts = std::map<DirectPath, TransferCount>;

class TransferCounts {
 public:
  explicit TransferCounts(Parts& parts) : parts_(parts) {}

  // Whole counts, in the place of those it said before. What is no path, or comes twice, is passed over.
  void told(ProcessId process, const TransfersCounted& message);
  // Its counts stay with the node it was on.
  void process_ended(ProcessId process, NodeId node);

  // Of what came to processes of each node.
  std::map<NodeId, PathCounts> by_node() const;
  PathCounts of_cluster() const;

 private:
  static constexpr std::size_t max_nodes = 4096;  // beyond it, the counts of nodes are kept in one

  Parts& parts_;
  std::map<ProcessId, PathCounts> live_;
  std::map<NodeId, PathCounts> ended_;  // the empty id: of nodes that nobody knows any more
};

}  // namespace mobula::internal::head
