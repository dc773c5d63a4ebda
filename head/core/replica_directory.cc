#include "head/core/replica_directory.h"

#include "head/core/head_tables.h"

namespace mobula::internal::head {

void ReplicaDirectory::changed(NodeId node, const ObjectCopies& news) {
  auto& copies = on_node_[node];
  for (const auto& object : news.removed) copies.erase(object);
  for (const auto& object : news.added) {
    if (copies.size() >= tables_.options.max_copies_per_node) break;
    copies.insert(object);
  }
  if (copies.empty()) on_node_.erase(node);
}

void ReplicaDirectory::locate(NodeId node, ObjectId object) const {
  LocateObjectReply answer{object, {}};
  for (const auto& [other, copies] : on_node_) {
    if (other != node && copies.contains(object)) answer.nodes.push_back(other);
  }
  tables_.nodes.send(node, std::move(answer));
}

std::int64_t ReplicaDirectory::count() const {
  std::size_t sum = 0;
  for (const auto& [node, copies] : on_node_) sum += copies.size();
  return static_cast<std::int64_t>(sum);
}

}  // namespace mobula::internal::head
