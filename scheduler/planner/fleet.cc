#include "scheduler/planner/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace mobula::internal::planner {

Fleet::Fleet(const ClusterState& state, const std::vector<NodeType>& types, const Limits& limits)
    : types_(types), limits_(limits) {
  for (const auto& type : types) counts_[type.name];
  for (const auto& node : state.nodes) {
    const auto at = counts_.find(node.type);
    if (at == counts_.end() || node.beside_head) continue;
    switch (node.phase) {
      case NodePhase::running: ++at->second.running; break;
      case NodePhase::launching: ++at->second.launching; break;
      case NodePhase::leaving: ++at->second.leaving; break;
    }
    ++workers_;
  }
}

std::int64_t Fleet::count(const std::string& type) const { return counts_.at(type).all(); }

bool Fleet::has_capacity(const NodeType& type) const {
  return type.closed.empty() && count(type.name) < type.max_workers &&
         workers_ < limits_.max_workers;
}

std::set<std::string> Fleet::closed() const {
  std::set<std::string> names;
  for (const auto& type : types_) {
    if (!has_capacity(type)) names.insert(type.name);
  }
  return names;
}

std::string Fleet::limits_of(const std::vector<const NodeType*>& names) const {
  if (workers_ >= limits_.max_workers) {
    return fmt::format("the cluster has its maximum of {} workers", limits_.max_workers);
  }
  std::string text;
  for (const auto* type : names) {
    if (has_capacity(*type)) continue;
    if (!text.empty()) text += ", ";
    text += type->closed.empty()
                ? fmt::format("{} has its maximum of {}", type->name, type->max_workers)
                : fmt::format("{} is closed: {}", type->name, type->closed);
  }
  return text;
}

NodeId Fleet::launch(const NodeType& type, Cause cause, Rehearsal& stage) {
  const auto number = ++number_;
  const auto node = stage.add(type.shape, number);
  launched_[node] = {&type, cause, number};
  ++counts_.at(type.name).launched;
  ++workers_;
  return node;
}

void Fleet::take_back(NodeId node, Rehearsal& stage) {
  const auto at = launched_.find(node);
  --counts_.at(at->second.type->name).launched;
  --workers_;
  launched_.erase(at);
  stage.remove(node);
}

void Fleet::show(NodeId node, Rehearsal& stage) const {
  const auto& launched = launched_.at(node);
  stage.add(launched.type->shape, launched.number);
}

std::vector<Launch> Fleet::launches() const {
  std::map<std::string, Launch> by_type;
  for (const auto& [node, launched] : launched_) {
    auto& row = by_type[launched.type->name];
    row.type = launched.type->name;
    switch (launched.cause) {
      case Cause::minimum: ++row.for_minimum; break;
      case Cause::standing: ++row.for_standing; break;
      case Cause::groups: ++row.for_groups; break;
      case Cause::slots: ++row.for_slots; break;
    }
  }
  std::vector<Launch> all;
  for (auto& [name, row] : by_type) {
    const auto& count = counts_.at(name);
    // Limit on launches in progress. Launches for other purposes count too.
    const auto running = std::max<std::int64_t>(count.running, 1);
    const auto part = running <= std::numeric_limits<std::int64_t>::max() /
                                     std::max<std::int64_t>(limits_.upscaling_milli, 1)
                          ? running * limits_.upscaling_milli / 1000
                          : std::numeric_limits<std::int64_t>::max() / 2;
    const auto at_once = std::max(limits_.launch_at_least, part);
    const auto bound =
        std::max<std::int64_t>(0, at_once - count.launching - (row.count() - row.for_slots));
    row.later = std::max<std::int64_t>(0, row.for_slots - bound);
    row.for_slots -= row.later;
    all.push_back(std::move(row));
  }
  return all;
}

}  // namespace mobula::internal::planner
