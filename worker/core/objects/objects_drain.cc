// Copies objects off drained nodes to nodes that stay.
// A result that a drained node stores for its home moves to the home. An object whose home is
// drained moves to the nodes that hold it, which the head names after the end of the home. These
// pulls have no reader. A few run at a time. A failed pull is retried twice; after that, readers
// pull on demand.
#include <algorithm>

#include "base/coverage_mark.h"
#include "worker/core/objects/objects.h"

namespace mobula::internal::worker {
namespace {

const CoverageMark mark_saved("worker.bytes_leave_a_drained_node");
const CoverageMark mark_left("worker.bytes_of_a_drained_node_not_saved");

}  // namespace

void Objects::drains(NodeId node, bool on) {
  if (!on) {
    drained_.erase(node);
    return;
  }
  if (!drained_.insert(node).second) return;
  std::vector<ObjectId> kept;
  for (const auto& [object, entry] : entries_) {
    if (saves(object, entry)) to_save_.emplace_back(object, 0);
    if (at_home(entry) && entry.replica_nodes.contains(node)) kept.push_back(object);
  }
  for (const ObjectId object : kept) release_drained_keepers(object);
}

void Objects::forget_drains() {
  drained_.clear();
  to_save_.clear();
}

// True if its bytes may be lost with drained nodes, and this node must pull them.
bool Objects::saves(ObjectId object, const ObjectEntry& entry) const {
  if (drained_.empty() || drained_.contains(self_) || entry.failure || entry.is_tensor ||
      here(object))
    return false;
  const auto goes = [&](NodeId node) { return drained_.contains(node); };
  if (!at_home(entry)) return goes(entry.home) && entry.node_hold == NodeHoldState::confirmed;
  const auto& where = entry.replica_nodes.empty() ? entry.copies : entry.replica_nodes;
  return entry.claimed && !where.empty() && std::ranges::all_of(where, goes);
}

void Objects::save_if_it_goes(ObjectId object) {
  if (drained_.empty()) return;
  const ObjectEntry* entry = find(object);
  if (entry != nullptr && saves(object, *entry)) to_save_.emplace_back(object, 0);
}

// At home: bytes that are here, or on nodes that stay, need no other copy.
void Objects::release_drained_keepers(ObjectId object) {
  ObjectEntry* entry = find(object);
  if (entry == nullptr || !at_home(*entry) || drained_.contains(self_)) return;
  const auto goes = [&](NodeId node) { return drained_.contains(node); };
  if (!here(object) && std::ranges::all_of(entry->replica_nodes, goes)) return;
  std::vector<NodeId> released;
  std::ranges::copy_if(entry->replica_nodes, std::back_inserter(released), goes);
  for (const NodeId node : released) {
    mark_saved.hit();
    remove_location(object, node, Location::kept_result, "its node is drained");
  }
}

bool Objects::under_way(const ObjectEntry& entry) const {
  return entry.pull != 0 || entry.waits_for_room;
}

void Objects::save_some() {
  for (auto at = saving_.begin(); at != saving_.end();) {
    const auto [object, tries] = *at;
    const ObjectEntry* entry = find(object);
    if (entry != nullptr && under_way(*entry)) {
      ++at;
      continue;
    }
    at = saving_.erase(at);
    if (entry == nullptr || !saves(object, *entry)) continue;
    if (tries + 1 < max_tries) {
      to_save_.emplace_back(object, tries + 1);
    } else {
      mark_left.hit();
    }
  }
  while (!to_save_.empty() && saving_.size() < max_saving) {
    const auto [object, tries] = to_save_.front();
    to_save_.pop_front();
    const ObjectEntry* entry = find(object);
    if (entry == nullptr || !saves(object, *entry)) continue;
    seek(object);
    entry = find(object);
    if (entry != nullptr && under_way(*entry)) saving_.emplace(object, tries);
  }
}

// While this node is drained: objects here that other nodes hold, or that are stored for other
// nodes, without a known replica on a node that stays. Empty if all other nodes are drained, too.
Objects::Left Objects::left_to_others() const {
  Left left;
  if (!drained_.contains(self_)) return left;
  const auto stays = [&](NodeId node) {
    return node != self_ && !drained_.contains(node) && !peers_.is_dead(node);
  };
  for (const auto& [object, row] : table_.objects()) {
    if (!row.here()) continue;
    const ObjectEntry& entry = entries_.at(object);
    const bool wanted = at_home(entry) ? std::ranges::any_of(row.nodes, stays) &&
                                             std::ranges::none_of(entry.copies, stays)
                                       : row.nodes.contains(entry.home) && stays(entry.home);
    if (!wanted) continue;
    ++left.objects;
    left.bytes += row.has_place() ? row.place.size_bytes : row.disk_bytes;
  }
  return left;
}

}  // namespace mobula::internal::worker
