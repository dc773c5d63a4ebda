#include "head/core/transfer_counts.h"

#include "head/core/parts.h"

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

void TransferCounts::told(ProcessId process, const TransfersCounted& message) {
  if (parts_.processes.find(process) == nullptr) return;
  PathCounts counts;
  for (const auto& each : message.counts) {
    if (is_path(each.path)) counts.emplace(each.path, each);
  }
  live_[process] = std::move(counts);
}

void TransferCounts::process_ended(ProcessId process, NodeId node) {
  const auto at = live_.find(process);
  if (at == live_.end()) return;
  const bool room = ended_.size() < max_nodes || ended_.contains(node);
  add(ended_[room ? node : NodeId()], at->second);
  live_.erase(at);
}

std::map<NodeId, PathCounts> TransferCounts::by_node() const {
  auto sums = ended_;
  for (const auto& [process, counts] : live_) add(sums[parts_.processes.node_of(process)], counts);
  return sums;
}

PathCounts TransferCounts::of_cluster() const {
  PathCounts sums;
  for (const auto& [node, counts] : ended_) add(sums, counts);
  for (const auto& [process, counts] : live_) add(sums, counts);
  return sums;
}

}  // namespace mobula::internal::head
