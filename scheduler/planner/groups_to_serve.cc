#include "scheduler/planner/groups_to_serve.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace mobula::internal::planner {
namespace {

using scheduler::RequestShape;
using scheduler::Tenant;

bool has_location(const WantedGroup& group, std::size_t bundle) {
  return bundle < group.locations.size() && !group.locations[bundle].node.empty();
}

bool has_any_location(const WantedGroup& group) {
  return std::ranges::any_of(group.locations, [](const auto& each) { return !each.node.empty(); });
}

// The unplaced bundles: as one unit if they stay together, else one unit each.
std::vector<Unit> units_of(const WantedGroup& group) {
  std::vector<RequestShape> shapes;
  for (std::size_t i = 0; i < group.spec.bundles.size(); ++i) {
    if (has_location(group, i)) continue;
    auto request = group.spec.bundles[i];
    request.strategy = DefaultStrategy{};
    request.placement = {};
    shapes.emplace_back(request, group.spec.program, Tenant::bundle);
  }
  std::ranges::stable_sort(shapes, larger);
  if (group.spec.strategy == GroupStrategy::strict_pack) return {Unit{std::move(shapes), 1}};
  std::vector<Unit> units;
  for (auto& shape : shapes) units.push_back(Unit{{std::move(shape)}, 1});
  return units;
}

}  // namespace

bool GroupServer::launch(const NodeType& type) {
  launched_.push_back(fleet_.launch(type, Cause::groups, stage_));
  stage_.settle();
  return stage_.placed(group_);
}

void GroupServer::take_back() {
  for (const auto node : launched_) fleet_.take_back(node, stage_);
  launched_.clear();
  stage_.settle();
}

void GroupServer::drop_unused() {
  const auto nodes = stage_.nodes_of(group_);
  for (const auto node : launched_) {
    if (!nodes.contains(node)) fleet_.take_back(node, stage_);
  }
}

bool GroupServer::on_one_node(const std::vector<Unit>& units) {
  for (const auto* type : best_types(fleet_.types(), units, fleet_.closed())) {
    if (launch(*type)) return true;
    take_back();
  }
  return false;
}

std::vector<Unit> GroupServer::beyond_capacity(const WantedGroup& group,
                                               const std::vector<Unit>& units) const {
  const bool apart = group.spec.strategy == GroupStrategy::strict_spread;
  auto taken = stage_.nodes_of(group.spec.id);
  std::map<NodeId, scheduler::InstanceLedger>
      accounting;  // ledgers of nodes that got a bundle here
  std::vector<Unit> rest;
  for (const auto& unit : units) {
    const auto fits = [&](const auto& row) {
      const auto& [id, node] = row;
      if (apart && taken.contains(id)) return false;
      if (!stage_.cluster().fits(node, unit.shapes.front())) return false;
      const auto known = accounting.find(id);
      auto ledger = known != accounting.end() ? known->second : node.ledger;
      if (!take(ledger, node.labels, unit)) return false;
      accounting.insert_or_assign(id, std::move(ledger));
      taken.insert(id);
      return true;
    };
    if (!std::ranges::any_of(stage_.cluster().nodes(), fits)) rest.push_back(unit);
  }
  return rest;
}

bool GroupServer::on_several(const WantedGroup& group, std::vector<Unit> units) {
  const bool apart = group.spec.strategy == GroupStrategy::strict_spread;
  while (!units.empty()) {
    const auto next = apart ? std::vector<Unit>{units.front()} : units;
    const auto best = best_types(fleet_.types(), next, fleet_.closed());
    if (best.empty()) break;
    if (launch(*best.front())) return true;
    if (apart) {
      units.erase(units.begin());
    } else {
      subtract(*best.front(), units);
    }
  }
  take_back();
  return false;
}

Unserved GroupServer::refusal(const WantedGroup& group, const std::vector<Unit>& units) const {
  Unserved made;
  made.group = group.spec.id;
  const bool strict_pack = group.spec.strategy == GroupStrategy::strict_pack;
  if (strict_pack && has_any_location(group)) {
    made.why = "its other bundles keep it on their node, which has no capacity for the rest";
    return made;
  }
  for (const auto& unit : units) {
    const auto able = best_types(fleet_.types(), {unit}, {});
    if (able.empty() && stage_.feasible(group.spec)) {
      made.why = "only nodes that are there hold it, when running work has ended";
      return made;
    }
    if (able.empty()) {
      made.never = true;
      made.why = fmt::format("no node type holds {}{}",
                             strict_pack ? "all its bundles together" : "every bundle of it",
                             fleet_.types().empty() ? ": no types are given" : "");
      for (const auto& type : fleet_.types()) {
        made.why += fmt::format("; {}: {}", type.name, why_not(type, unit));
      }
      return made;
    }
    if (auto limits = fleet_.limits_of(able); !limits.empty()) {
      made.why = std::move(limits);
      return made;
    }
  }
  made.why = "not all of its bundles would find a place within the maxima";
  return made;
}

std::optional<Unserved> GroupServer::serve(const WantedGroup& group) {
  group_ = group.spec.id;
  launched_.clear();
  stage_.add_group(group);
  stage_.settle();
  if (stage_.placed(group_)) return std::nullopt;
  const auto units = units_of(group);
  const bool strict_pack = group.spec.strategy == GroupStrategy::strict_pack;
  bool served = false;
  if (strict_pack) {
    served = !has_any_location(group) && on_one_node(units);
  } else {
    // The scheduler may divide the present capacity in another way than this estimate. In that
    // case, all bundles use fresh nodes.
    served = on_several(group, beyond_capacity(group, units)) || on_several(group, units);
  }
  if (served) {
    drop_unused();
    return std::nullopt;
  }
  auto refused = refusal(group, units);
  if (!has_any_location(group)) stage_.drop_group(group_);
  return refused;
}

}  // namespace mobula::internal::planner
