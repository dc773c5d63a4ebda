// Bundles of placement groups on nodes: the part of ClusterView for bundle capacity.
#include <algorithm>

#include "scheduler/cluster_view.h"

namespace mobula::internal::scheduler {
namespace {

bool means(const RequestShape& ask, std::int32_t bundle) {
  return ask.bundle < 0 || ask.bundle == bundle;
}

}  // namespace

void ClusterView::open_group(GroupId id) {
  auto* group = groups_.find(id);
  if (group == nullptr || group->closing) return;
  for (auto& [bundle, room] : group->rooms) room.open = true;
  freed_groups_.insert(id);
}

void ClusterView::open_room(GroupId id, std::int32_t bundle) {
  auto* group = groups_.find(id);
  if (group == nullptr || group->closing) return;
  if (const auto at = group->rooms.find(bundle); at != group->rooms.end()) at->second.open = true;
  freed_groups_.insert(id);
}

void ClusterView::close_group(GroupId id) {
  if (auto* group = groups_.find(id)) group->closing = true;
}

void ClusterView::add_bundle(GroupId group, std::int32_t bundle, const Node& node,
                             const Allocation& share) {
  auto& rooms = groups_[group].rooms;
  const auto at = rooms.find(bundle);
  const bool open = at != rooms.end() && at->second.open;
  if (at == rooms.end()) groups_on_[node.id].insert(group);
  rooms.insert_or_assign(
      bundle, BundleCapacity{node.id, InstanceLedger(*node.ledger.layout(), share), open});
  freed_groups_.insert(group);
}

void ClusterView::remove_room(GroupId id, std::int32_t bundle) {
  auto* group = groups_.find(id);
  if (group == nullptr) return;
  const auto room = group->rooms.find(bundle);
  if (room == group->rooms.end()) return;
  const auto on_node = groups_on_.find(room->second.node);
  on_node->second.erase(on_node->second.find(id));
  if (on_node->second.empty()) groups_on_.erase(on_node);
  group->rooms.erase(room);
  freed_groups_.insert(id);
}

const BundleCapacity* ClusterView::room(GroupId id, std::int32_t bundle) const {
  const auto* group = groups_.find(id);
  if (group == nullptr) return nullptr;
  const auto at = group->rooms.find(bundle);
  return at == group->rooms.end() ? nullptr : &at->second;
}

BundleCapacity* ClusterView::room_of(const Allocation& allocation) {
  return const_cast<BundleCapacity*>(room(allocation.group, allocation.bundle));
}

Allocation ClusterView::book(PlacementTarget target, const RequestShape& ask) {
  if (ask.group.empty()) {
    return target.node->ledger.take(ask.need);
  }
  auto* group = groups_.find(ask.group);
  auto allocation = group->rooms.at(target.bundle).ledger.take(ask.need);
  allocation.group = ask.group;
  allocation.bundle = target.bundle;
  target.node->ledger.restore({}, {ask.need.tenant, false});
  return allocation;
}

bool ClusterView::restore(Node& node, const Allocation& allocation, Occupancy occupancy) {
  if (allocation.group.empty()) {
    node.ledger.restore(allocation, occupancy);
    return true;
  }
  auto* room = room_of(allocation);
  if (room == nullptr || room->node != node.id) return false;
  room->ledger.restore(allocation, occupancy);
  node.ledger.restore({}, occupancy);
  return true;
}

void ClusterView::free(Node& node, const Allocation& allocation, Occupancy occupancy) {
  if (allocation.group.empty()) return node.ledger.free(allocation, occupancy);
  node.ledger.free({}, occupancy);
  auto* room = room_of(allocation);
  if (room == nullptr) return;
  room->ledger.free(allocation, occupancy);
  freed_groups_.insert(allocation.group);
}

void ClusterView::release_cpu(Node& node, const Allocation& allocation, Tenant tenant) {
  if (allocation.group.empty()) return node.ledger.release_cpu(allocation, tenant);
  node.ledger.release_cpu({}, tenant);
  auto* room = room_of(allocation);
  if (room == nullptr) return;
  room->ledger.release_cpu(allocation, tenant);
  freed_groups_.insert(allocation.group);
}

void ClusterView::reacquire_cpu(Node& node, const Allocation& allocation, Tenant tenant) {
  if (allocation.group.empty()) return node.ledger.reacquire_cpu(allocation, tenant);
  node.ledger.reacquire_cpu({}, tenant);
  if (auto* room = room_of(allocation)) room->ledger.reacquire_cpu(allocation, tenant);
}

// The first bundle that fits; a request without devices prefers a bundle without devices.
PlacementTarget ClusterView::capacity_for(const RequestShape& ask) {
  const auto* group = groups_.find(ask.group);
  if (group == nullptr || group->closing) return {};
  PlacementTarget with_devices;
  for (const auto& [bundle, room] : group->rooms) {
    if (!room.open || !means(ask, bundle) || !room.ledger.fits(ask.need)) continue;
    auto* node = nodes_.find(room.node);
    if (node == nullptr || !node->ledger.has_place(ask.need.tenant) || !allows(*node, ask))
      continue;
    if (ask.need.has_devices || !room.ledger.has_devices()) return {node, bundle};
    if (!with_devices) with_devices = {node, bundle};
  }
  return with_devices;
}

bool ClusterView::room_can_ever(const RequestShape& ask) const {
  const auto* group = groups_.find(ask.group);
  if (group == nullptr || group->rooms.size() < group->bundles) return true;
  return std::ranges::any_of(group->rooms, [&](const auto& each) {
    const auto* node = nodes_.find(each.second.node);
    return means(ask, each.first) && each.second.ledger.can_ever(ask.need) && node != nullptr &&
           can_ever(*node, ask);
  });
}

Reason ClusterView::why_not_in_rooms(const Node& node, const RequestShape& ask) const {
  const auto* group = groups_.find(ask.group);
  const auto is_open = [](const auto& each) { return each.second.open; };
  if (group == nullptr || std::ranges::none_of(group->rooms, is_open))
    return {ReasonCode::group_unplaced, ask.group.hex(), {}, {}, {}};
  Reason refusal{ReasonCode::outside_group, ask.group.hex(), {}, {}, {}};
  for (const auto& [bundle, room] : group->rooms) {
    if (room.node != node.id || !means(ask, bundle)) continue;
    refusal = room.ledger.why_not(ask.need);
    if (refusal.code == ReasonCode::fits) break;
    if (refusal.detail.empty()) refusal.detail = "of bundle " + std::to_string(bundle);
  }
  if (refusal.code == ReasonCode::fits && !node.ledger.has_place(ask.need.tenant)) {
    return {ReasonCode::executors_full, "executors", Quantity::whole(1), {}, {}};
  }
  return refusal;
}

}  // namespace mobula::internal::scheduler
