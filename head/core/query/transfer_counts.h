// Counts of tensor transfers by path, and of object transfers between stores, since the start of
// this head. Processes and agents report their own totals. Totals of exited ones are kept.
// Thread: owner (one HeadCore).
#pragma once

#include <map>
#include <vector>

#include "base/id.h"
#include "protocol/messages/facts/transfer_facts.h"

namespace mobula::internal::head {

using PathCounts = std::map<DirectPath, TransferCount>;

class TransferCounts {
 public:
  // Replaces the totals of a live process of the node, or of its agent by its incarnation. Ignores
  // unknown paths and duplicates. Returns whether any total changed.
  bool update(ProcessId sender, NodeId node, const std::vector<TransferCount>& counts);
  // Adds the totals of the process to those of its node.
  void ended(ProcessId sender);

  // Totals by receiving node: its store and its processes.
  std::map<NodeId, PathCounts> by_node() const;
  PathCounts of_cluster() const;

 private:
  static constexpr std::size_t max_nodes = 4096;  // further nodes share one entry

  struct Live {
    NodeId node;
    PathCounts counts;
  };
  std::map<ProcessId, Live> live_;
  std::map<NodeId, PathCounts> ended_;  // empty id: nodes beyond the limit
};

}  // namespace mobula::internal::head
