#include "scheduler/groups/group_placer.h"

#include <algorithm>
#include <functional>
#include <ranges>
#include <tuple>

namespace mobula::internal::scheduler {
namespace {

std::int64_t most_bytes(const Need& need) {
  std::int64_t most = 0;
  for (const auto& each : need.amounts) most = std::max(most, each.bytes);
  return most;
}

}  // namespace

std::optional<std::vector<PlacedBundle>> GroupPlacer::place(GroupStrategy strategy) {
  used_.clear();
  placed_.clear();
  for (const auto& each : locations_) {
    if (!each.node.empty()) ++used_[each.node];
  }
  const auto bundles = largest_first();
  const auto found = [&] {
    switch (strategy) {
      case GroupStrategy::pack: return packed(bundles) || searched(bundles);
      case GroupStrategy::spread: return spread(bundles) || searched(bundles);
      case GroupStrategy::strict_pack: return on_one_node(bundles);
      case GroupStrategy::strict_spread: return each_alone(bundles);
    }
    return false;
  }();
  if (!found) {
    undo(0);
    return std::nullopt;
  }
  return std::move(placed_);
}

std::vector<std::int32_t> GroupPlacer::left_over(GroupStrategy strategy) {
  auto bundles = largest_first();
  if (strategy == GroupStrategy::strict_pack) return bundles;
  used_.clear();
  placed_.clear();
  for (const auto& each : locations_) {
    if (!each.node.empty()) ++used_[each.node];
  }
  std::erase_if(bundles, [&](std::int32_t bundle) {
    return visit_tightest(site(bundle).scarcest, [&](Node& node) {
      const bool taken = strategy == GroupStrategy::strict_spread && used_.contains(node.id);
      return !taken && put(node, bundle);
    });
  });
  undo(0);
  std::ranges::sort(bundles);
  return bundles;
}

// Hardest to place first: devices, then the fraction of the cluster's scarcest resource, then the
// memory of each device.
GroupPlacer::Bundles GroupPlacer::largest_first() const {
  Bundles bundles;
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    if (locations_[i].node.empty()) bundles.push_back(static_cast<std::int32_t>(i));
  }
  std::ranges::stable_sort(bundles, std::greater<>(), [&](std::int32_t bundle) {
    const auto& each = site(bundle);
    const auto total = cluster_.totals().get(each.scarcest.resource);
    return std::tuple(each.shape.need.has_devices, !each.shape.labels.empty(),
                      millionths(each.scarcest.amount, total), most_bytes(each.shape.need),
                      each.shape.need.amounts.size());
  });
  return bundles;
}

bool GroupPlacer::put(Node& node, std::int32_t bundle) {
  const auto& shape = site(bundle).shape;
  if (!cluster_.fits(node, shape, owner_)) return false;
  placed_.push_back({bundle, node.id, cluster_.book({&node, -1}, shape)});
  ++used_[node.id];
  return true;
}

void GroupPlacer::undo(std::size_t down_to) {
  while (placed_.size() > down_to) {
    const auto& last = placed_.back();
    cluster_.nodes().at(last.node).ledger.free(last.allocation, {Tenant::bundle, false});
    if (--used_.at(last.node) == 0) used_.erase(last.node);
    placed_.pop_back();
  }
}

bool GroupPlacer::put_all(Node& node, const Bundles& bundles) {
  const auto before = placed_.size();
  for (const auto bundle : bundles) {
    if (put(node, bundle)) continue;
    undo(before);
    return false;
  }
  return true;
}

// Visits nodes with the amount of a resource, the least spare capacity first, until `visit` returns
// true.
template <class Visit>
bool GroupPlacer::visit_tightest(const Scarcest& least, Visit&& visit) {
  if (least.resource.empty()) {
    for (const auto& [rank, node] : cluster_.order().ranks(false)) {
      if (visit(*node)) return true;
    }
    return false;
  }
  const auto& order = cluster_.free().nodes(least.resource);
  for (auto at = order.lower_bound({least.amount, {}}); at != order.end(); ++at) {
    if (visit(*at->second)) return true;
  }
  return false;
}

// The minimum that a node needs for all bundles. Fractions may share devices, so their sum is no
// bound.
Scarcest GroupPlacer::least_for(const Bundles& bundles) const {
  Scarcest least = site(bundles.front()).scarcest;
  Quantity sum;
  for (const auto bundle : bundles) {
    for (const auto& each : site(bundle).shape.need.amounts) {
      if (each.name != least.resource) continue;
      if (!each.amount.is_whole()) return least;
      sum += each.amount;
    }
  }
  least.amount = std::max(least.amount, sum);
  return least;
}

bool GroupPlacer::on_one_node(const Bundles& bundles) {
  if (bundles.empty()) return true;
  if (!used_.empty()) {
    auto* node = cluster_.nodes().find(used_.begin()->first);
    return used_.size() == 1 && node != nullptr && put_all(*node, bundles);
  }
  return visit_tightest(least_for(bundles), [&](Node& node) { return put_all(node, bundles); });
}

bool GroupPlacer::packed(const Bundles& bundles) {
  if (on_one_node(bundles)) return true;
  std::vector<NodeId> homes;
  for (const auto& [id, count] : used_) homes.push_back(id);
  for (const auto bundle : bundles) {
    const auto beside = [&](NodeId id) {
      auto* node = cluster_.nodes().find(id);
      return node != nullptr && put(*node, bundle);
    };
    if (std::ranges::any_of(homes, beside)) continue;
    if (!visit_tightest(site(bundle).scarcest, [&](Node& node) { return put(node, bundle); }))
      return false;
    homes.push_back(placed_.back().node);
  }
  return true;
}

bool GroupPlacer::spread(const Bundles& bundles) {
  for (const auto bundle : bundles) {
    const auto alone = [&](const auto& each) {
      return !used_.contains(each.first.node) && put(*each.second, bundle);
    };
    const bool for_devices = site(bundle).shape.need.has_devices;
    if (std::ranges::any_of(cluster_.order().ranks(for_devices), alone)) continue;
    std::vector<std::pair<std::int64_t, NodeId>> shared;
    for (const auto& [id, count] : used_) shared.emplace_back(count, id);
    std::ranges::sort(shared);
    const auto beside = [&](const auto& each) {
      auto* node = cluster_.nodes().find(each.second);
      return node != nullptr && put(*node, bundle);
    };
    if (!std::ranges::any_of(shared, beside)) return false;
  }
  return true;
}

// Greedy choices may exclude later bundles. In that case other choices are tried, within the limit
// of steps.
bool GroupPlacer::searched(const Bundles& bundles) {
  undo(0);
  auto steps = most_steps;
  const std::function<bool(std::size_t)> place_from = [&](std::size_t at) {
    if (at == bundles.size()) return true;
    std::vector<NodeId> nodes;
    visit_tightest(site(bundles[at]).scarcest, [&](Node& node) {
      if (cluster_.fits(node, site(bundles[at]).shape, owner_)) nodes.push_back(node.id);
      return nodes.size() >= most_homes;
    });
    for (const auto id : nodes) {
      if (--steps < 0) return false;
      const auto before = placed_.size();
      if (!put(cluster_.nodes().at(id), bundles[at])) continue;
      if (place_from(at + 1)) return true;
      undo(before);
    }
    return false;
  };
  return place_from(0);
}

std::vector<NodeId> GroupPlacer::homes_for(std::int32_t bundle, std::size_t limit) {
  const auto& shape = site(bundle).shape;
  std::vector<NodeId> homes;
  for (const auto& [rank, node] : cluster_.order().ranks(shape.need.has_devices)) {
    if (homes.size() >= limit) break;
    if (!used_.contains(node->id) && cluster_.fits(*node, shape, owner_)) homes.push_back(node->id);
  }
  return homes;
}

// Matches bundles and nodes by augmenting paths. As many candidates per bundle as there are bundles
// suffice: such a bundle finds a node whatever the others use.
bool GroupPlacer::each_alone(const Bundles& bundles) {
  std::vector<std::vector<NodeId>> homes;
  std::map<NodeId, std::size_t> taken;
  for (const auto bundle : bundles) {
    homes.push_back(homes_for(bundle, bundles.size()));
    if (homes.back().empty()) return false;
  }
  std::set<NodeId> tried;
  const std::function<bool(std::size_t)> find_home = [&](std::size_t which) {
    for (const auto id : homes[which]) {
      if (!tried.insert(id).second) continue;
      const auto at = taken.find(id);
      if (at != taken.end() && !find_home(at->second)) continue;
      taken[id] = which;
      return true;
    }
    return false;
  };
  for (std::size_t which = 0; which < bundles.size(); ++which) {
    tried.clear();
    if (!find_home(which)) return false;
  }
  for (const auto& [id, which] : taken) {
    MOBULA_CHECK(put(cluster_.nodes().at(id), bundles[which]), "nodes of a matching fit");
  }
  return true;
}

}  // namespace mobula::internal::scheduler
