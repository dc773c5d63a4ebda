#include "head/core/query/transfer_counts.h"

#include <utility>

namespace mobula::internal::head {
namespace {

void add(PathCounts& sums, const PathCounts& more) {
  for (const auto& [path, each] : more) {
    TransferCount& sum = sums[path];
    sum.path = path;
    sum.transfers += each.transfers;
    sum.bytes += each.bytes;
    sum.failures += each.failures;
    sum.fallbacks += each.fallbacks;
    sum.encrypted += each.encrypted;
    sum.in_place += each.in_place;
  }
}

bool is_path(DirectPath path) {
  const auto number = static_cast<std::size_t>(path);
  return number >= 1 && number <= direct_paths;
}

}  // namespace

bool TransferCounts::update(ProcessId sender, NodeId node,
                            const std::vector<TransferCount>& counts) {
  if (counts.empty()) return false;
  PathCounts known;
  for (const auto& each : counts) {
    if (is_path(each.path)) known.emplace(each.path, each);
  }
  Live& live = live_[sender];
  const bool is_new = live.counts != known;
  live = {node, std::move(known)};
  return is_new;
}

void TransferCounts::ended(ProcessId sender) {
  const auto at = live_.find(sender);
  if (at == live_.end()) return;
  const NodeId node = at->second.node;
  const bool has_row = ended_.size() < max_nodes || ended_.contains(node);
  add(ended_[has_row ? node : NodeId()], at->second.counts);
  live_.erase(at);
}

std::map<NodeId, PathCounts> TransferCounts::by_node() const {
  auto sums = ended_;
  for (const auto& [sender, live] : live_) add(sums[live.node], live.counts);
  return sums;
}

PathCounts TransferCounts::of_cluster() const {
  PathCounts sums;
  for (const auto& [node, counts] : ended_) add(sums, counts);
  for (const auto& [sender, live] : live_) add(sums, live.counts);
  return sums;
}

}  // namespace mobula::internal::head
