// Bundles of placement groups on nodes: the part of ClusterView for bundle capacity.
#include <algorithm>

#include "scheduler/cluster_view.h"

namespace mobula::internal::scheduler {
namespace {

bool means(const RequestShape& shape, std::int32_t bundle) {
  return shape.bundle < 0 || shape.bundle == bundle;
}

}  // namespace

void ClusterView::open_group(GroupId id) {
  auto* group = groups_.find(id);
  if (group == nullptr || group->closing) return;
  for (auto& [bundle, capacity] : group->capacities) capacity.open = true;
  freed_groups_.insert(id);
}

void ClusterView::open_bundle(GroupId id, std::int32_t bundle) {
  auto* group = groups_.find(id);
  if (group == nullptr || group->closing) return;
  if (const auto at = group->capacities.find(bundle); at != group->capacities.end())
    at->second.open = true;
  freed_groups_.insert(id);
}

void ClusterView::close_group(GroupId id) {
  if (auto* group = groups_.find(id)) group->closing = true;
}

void ClusterView::add_bundle(GroupId group, std::int32_t bundle, const Node& node,
                             const Allocation& share) {
  auto& capacities = groups_[group].capacities;
  const auto at = capacities.find(bundle);
  const bool open = at != capacities.end() && at->second.open;
  if (at == capacities.end()) groups_on_[node.id].insert(group);
  capacities.insert_or_assign(
      bundle, BundleCapacity{node.id, InstanceLedger(*node.ledger.layout(), share), open});
  freed_groups_.insert(group);
}

void ClusterView::remove_bundle(GroupId id, std::int32_t bundle) {
  auto* group = groups_.find(id);
  if (group == nullptr) return;
  const auto capacity = group->capacities.find(bundle);
  if (capacity == group->capacities.end()) return;
  const auto on_node = groups_on_.find(capacity->second.node);
  on_node->second.erase(on_node->second.find(id));
  if (on_node->second.empty()) groups_on_.erase(on_node);
  group->capacities.erase(capacity);
  freed_groups_.insert(id);
}

const BundleCapacity* ClusterView::capacity(GroupId id, std::int32_t bundle) const {
  const auto* group = groups_.find(id);
  if (group == nullptr) return nullptr;
  const auto at = group->capacities.find(bundle);
  return at == group->capacities.end() ? nullptr : &at->second;
}

BundleCapacity* ClusterView::capacity_of(const Allocation& allocation) {
  return const_cast<BundleCapacity*>(capacity(allocation.group, allocation.bundle));
}

Allocation ClusterView::book(PlacementTarget target, const RequestShape& shape) {
  if (shape.group.empty()) {
    return target.node->ledger.take(shape.need);
  }
  auto* group = groups_.find(shape.group);
  auto allocation = group->capacities.at(target.bundle).ledger.take(shape.need);
  allocation.group = shape.group;
  allocation.bundle = target.bundle;
  target.node->ledger.restore({}, {shape.need.tenant, false});
  return allocation;
}

bool ClusterView::restore(Node& node, const Allocation& allocation, Occupancy occupancy) {
  if (allocation.group.empty()) {
    node.ledger.restore(allocation, occupancy);
    return true;
  }
  auto* capacity = capacity_of(allocation);
  if (capacity == nullptr || capacity->node != node.id) return false;
  capacity->ledger.restore(allocation, occupancy);
  node.ledger.restore({}, occupancy);
  return true;
}

void ClusterView::free(Node& node, const Allocation& allocation, Occupancy occupancy) {
  if (allocation.group.empty()) return node.ledger.free(allocation, occupancy);
  node.ledger.free({}, occupancy);
  auto* capacity = capacity_of(allocation);
  if (capacity == nullptr) return;
  capacity->ledger.free(allocation, occupancy);
  freed_groups_.insert(allocation.group);
}

void ClusterView::release_cpu(Node& node, const Allocation& allocation, Tenant tenant) {
  if (allocation.group.empty()) return node.ledger.release_cpu(allocation, tenant);
  node.ledger.release_cpu({}, tenant);
  auto* capacity = capacity_of(allocation);
  if (capacity == nullptr) return;
  capacity->ledger.release_cpu(allocation, tenant);
  freed_groups_.insert(allocation.group);
}

void ClusterView::reacquire_cpu(Node& node, const Allocation& allocation, Tenant tenant) {
  if (allocation.group.empty()) return node.ledger.reacquire_cpu(allocation, tenant);
  node.ledger.reacquire_cpu({}, tenant);
  if (auto* capacity = capacity_of(allocation)) capacity->ledger.reacquire_cpu(allocation, tenant);
}

// The first bundle that fits; a request without devices prefers a bundle without devices.
PlacementTarget ClusterView::capacity_for(const RequestShape& shape) {
  const auto* group = groups_.find(shape.group);
  if (group == nullptr || group->closing) return {};
  PlacementTarget with_devices;
  for (const auto& [bundle, capacity] : group->capacities) {
    if (!capacity.open || !means(shape, bundle) || !capacity.ledger.fits(shape.need)) continue;
    auto* node = nodes_.find(capacity.node);
    if (node == nullptr || !node->ledger.has_free_executor(shape.need.tenant) ||
        !allows(*node, shape))
      continue;
    if (shape.need.has_devices || !capacity.ledger.has_devices()) return {node, bundle};
    if (!with_devices) with_devices = {node, bundle};
  }
  return with_devices;
}

bool ClusterView::bundle_can_ever(const RequestShape& shape) const {
  const auto* group = groups_.find(shape.group);
  if (group == nullptr || group->capacities.size() < group->bundles) return true;
  return std::ranges::any_of(group->capacities, [&](const auto& each) {
    const auto* node = nodes_.find(each.second.node);
    return means(shape, each.first) && each.second.ledger.can_ever(shape.need) && node != nullptr &&
           can_ever(*node, shape);
  });
}

Reason ClusterView::why_not_in_bundles(const Node& node, const RequestShape& shape) const {
  const auto* group = groups_.find(shape.group);
  const auto is_open = [](const auto& each) { return each.second.open; };
  if (group == nullptr || std::ranges::none_of(group->capacities, is_open))
    return {ReasonCode::group_unplaced, shape.group.hex(), {}, {}, {}};
  Reason refusal{ReasonCode::outside_group, shape.group.hex(), {}, {}, {}};
  for (const auto& [bundle, capacity] : group->capacities) {
    if (capacity.node != node.id || !means(shape, bundle)) continue;
    refusal = capacity.ledger.why_not(shape.need);
    if (refusal.code == ReasonCode::fits) break;
    if (refusal.detail.empty()) refusal.detail = "of bundle " + std::to_string(bundle);
  }
  if (refusal.code == ReasonCode::fits && !node.ledger.has_free_executor(shape.need.tenant)) {
    return {ReasonCode::executors_full, "executors", Quantity::whole(1), {}, {}};
  }
  return refusal;
}

}  // namespace mobula::internal::scheduler
