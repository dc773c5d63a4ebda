#include "worker/core/objects/object_drain.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/coverage_mark.h"

namespace mobula::internal::worker {
namespace {

const CoverageMark mark_saved("worker.bytes_leave_a_drained_node");
const CoverageMark mark_left("worker.bytes_of_a_drained_node_not_saved");

}  // namespace

void ObjectDrain::begin(NodeId node) {
  if (!drained_.insert(node).second) return;
  std::vector<ObjectId> kept;
  for (const auto& [object, held] : holds_.all()) {
    if (must_save(object)) to_save_.emplace_back(object, 0);
    if (holds_.at_home(held) && directory_.keeps_result(object, node)) kept.push_back(object);
  }
  for (const ObjectId object : kept) release_kept_results(object);
}

void ObjectDrain::forget() {
  drained_.clear();
  to_save_.clear();
}

bool ObjectDrain::must_save(ObjectId object) const {
  if (drained_.empty() || drained_.contains(context_.self)) return false;
  const HeldObject* held = holds_.find(object);
  if (held == nullptr || held->failure || directory_.is_tensor(object) || context_.here(object))
    return false;
  if (!holds_.at_home(*held))
    return drained_.contains(held->home) && held->node_hold == NodeHoldState::confirmed;
  if (!directory_.claimed(object)) return false;
  const std::vector<NodeId> kept = directory_.kept_results(object);
  const std::vector<NodeId> where = kept.empty() ? directory_.replicas(object) : kept;
  return !where.empty() &&
         std::ranges::all_of(where, [&](NodeId node) { return drained_.contains(node); });
}

void ObjectDrain::check(ObjectId object) {
  if (must_save(object)) to_save_.emplace_back(object, 0);
}

void ObjectDrain::release_kept_results(ObjectId object) {
  const HeldObject* held = holds_.find(object);
  if (drained_.empty() || held == nullptr || !holds_.at_home(*held) ||
      drained_.contains(context_.self))
    return;
  const auto goes = [&](NodeId node) { return drained_.contains(node); };
  const std::vector<NodeId> nodes = directory_.kept_results(object);
  if (!context_.here(object) && std::ranges::all_of(nodes, goes)) return;
  for (const NodeId node : nodes) {
    if (!goes(node)) continue;
    mark_saved.hit();
    directory_.remove_location(object, node, Location::kept_result, "its node is drained");
  }
}

bool ObjectDrain::under_way(ObjectId object) const {
  return reads_.pull_of(object) != 0 || memory_.awaits(object);
}

void ObjectDrain::advance() {
  for (auto at = saving_.begin(); at != saving_.end();) {
    const auto [object, tries] = *at;
    if (under_way(object)) {
      ++at;
      continue;
    }
    at = saving_.erase(at);
    if (!must_save(object)) continue;
    if (tries + 1 < max_tries) {
      to_save_.emplace_back(object, tries + 1);
    } else {
      mark_left.hit();
    }
  }
  while (!to_save_.empty() && saving_.size() < max_saving) {
    const auto [object, tries] = to_save_.front();
    to_save_.pop_front();
    if (!must_save(object)) continue;
    reads_.seek(object);
    if (under_way(object)) saving_.emplace(object, tries);
  }
}

ObjectDrain::Left ObjectDrain::left_to_others() const {
  Left left;
  if (!drained_.contains(context_.self)) return left;
  const auto stays = [&](NodeId node) {
    return node != context_.self && !drained_.contains(node) && !context_.peers.is_dead(node);
  };
  for (const auto& [object, row] : context_.table.objects()) {
    if (!row.here()) continue;
    const HeldObject& held = holds_.at(object);
    const bool wanted = holds_.at_home(held)
                            ? std::ranges::any_of(row.nodes, stays) &&
                                  std::ranges::none_of(directory_.replicas(object), stays)
                            : row.nodes.contains(held.home) && stays(held.home);
    if (!wanted) continue;
    ++left.objects;
    left.bytes += row.has_location() ? row.location.size_bytes : row.disk_bytes;
  }
  return left;
}

}  // namespace mobula::internal::worker
