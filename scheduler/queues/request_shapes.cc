#include "scheduler/queues/request_shapes.h"

namespace mobula::internal::scheduler {
namespace {

// Equal for requests that may run on the same nodes. Each part has its length, so names cannot be
// ambiguous.
std::string text_of(const Request& request, ProgramId program, Tenant tenant) {
  std::string text = program.hex() + (tenant == Tenant::actor ? "a" : "t");
  const auto part = [&](const std::string& each) {
    text += std::to_string(each.size()) + ":" + each;
  };
  const auto amounts = [&](const ResourceSet& set) {
    text += "|";
    for (const auto& [name, amount] : set.amounts()) {
      part(name);
      text += std::to_string(amount.units()) + ",";
    }
  };
  amounts(request.resources);
  amounts(request.required_totals);
  text += std::to_string(request.gpu_memory) + "|";
  part(request.accelerator_type);
  const auto labels = [&](const Labels& selector) {
    for (const auto& [key, value] : selector) {
      part(key);
      part(value);
    }
    text += "|";
  };
  labels(request.label_selector);
  for (const auto& selector : request.fallback_selectors) labels(selector);
  text += "|" + std::to_string(request.strategy.index());
  if (const auto* affinity = std::get_if<NodeAffinityStrategy>(&request.strategy)) {
    text += affinity->node.hex() + (affinity->soft ? "s" : "h");
  }
  return text + "|" + request.placement.group.hex() +
         std::to_string(request.placement.bundle_index);
}

}  // namespace

ShapeRow& RequestShapes::join(const Request& request, ProgramId program, Tenant tenant,
                              const std::vector<NodeId>& callers) {
  auto text = text_of(request, program, tenant);
  for (const NodeId caller : callers) text += "|" + caller.hex();
  auto [number, added] = by_text_.try_emplace(text, last_number_ + 1);
  if (added) {
    ++last_number_;
    ShapeRow row{.shape = RequestShape(request, program, tenant),
                 .text = std::move(text),
                 .number = last_number_,
                 .scarcest = {},
                 .most_held = {}};
    row.shape.callers = callers;
    row.scarcest = cluster_.scarcest_of(row.shape.need);
    row.resource = resource_number(row.scarcest.resource);
    if (row.shape.labels.has_fallbacks()) {
      for (auto& selector : row.shape.labels.each()) {
        row.choices.push_back(row.shape);
        row.choices.back().labels = std::move(selector);
      }
    }
    // A slot in a bundle is held by the bundle.
    if (row.shape.group.empty()) row.most_held = most_held_by(row.shape.need);
    rows_.emplace(last_number_, std::move(row));
  }
  auto& row = rows_.at(number->second);
  ++row.classes;
  return row;
}

void RequestShapes::leave(ShapeRow& row) {
  if (--row.classes > 0) return;
  by_text_.erase(row.text);
  rows_.erase(row.number);
}

void RequestShapes::waits(ShapeRow& row, const ClassKey& key) {
  if (row.waiting.empty()) {
    if (row.shape.wanted_softly) soft_.insert(row.number);
    if (!row.shape.group.empty()) by_group_[row.shape.group].insert(row.number);
  }
  row.waiting.insert(key);
}

void RequestShapes::enters_line(ShapeRow& row) {
  if (row.in_lines++ > 0) return;
  if (!row.shape.group.empty() || row.examined_through != cluster_.last_stamp()) {
    row.examined_through = 0;
  }
}

void RequestShapes::waits_no_more(ShapeRow& row, const ClassKey& key) {
  row.waiting.erase(key);
  if (!row.waiting.empty()) return;
  soft_.erase(row.number);
  if (const auto at = by_group_.find(row.shape.group); at != by_group_.end()) {
    at->second.erase(row.number);
    if (at->second.empty()) by_group_.erase(at);
  }
}

std::vector<std::uint64_t> RequestShapes::of_group(GroupId group) const {
  const auto at = by_group_.find(group);
  if (at == by_group_.end()) return {};
  return {at->second.begin(), at->second.end()};
}

std::uint32_t RequestShapes::resource_number(const std::string& name) {
  const auto next = static_cast<std::uint32_t>(resource_names_.size());
  const auto [at, added] = resource_numbers_.try_emplace(name, next);
  if (added) resource_names_.push_back(name);
  return at->second;
}

ShapeRow* RequestShapes::find(std::uint64_t number) {
  const auto at = rows_.find(number);
  return at == rows_.end() ? nullptr : &at->second;
}

std::vector<ShapeRow*> RequestShapes::soft_rows() {
  std::vector<ShapeRow*> rows;
  for (const auto number : soft_) rows.push_back(&rows_.at(number));
  return rows;
}

bool RequestShapes::find_server(ShapeRow& row) const {
  for (const auto& [id, node] : cluster_.nodes()) {
    if (!cluster_.can_ever(node, row.shape)) continue;
    row.feasible_on = id;
    return true;
  }
  return false;
}

bool RequestShapes::feasible(ShapeRow& row) const {
  if (!row.shape.group.empty()) return cluster_.bundle_can_ever(row.shape);
  if (row.checked_version == cluster_.version()) return row.feasible;
  const auto known = std::exchange(row.checked_version, cluster_.version());
  const auto serves = [&](NodeId id) {
    const auto* node = cluster_.nodes().find(id);
    return node != nullptr && cluster_.can_ever(*node, row.shape);
  };
  if (row.feasible) return serves(row.feasible_on) || (row.feasible = find_server(row));
  // If no node could serve it, only a node that changed since then can.
  const bool known_changes = known > 0 && cluster_.for_each_changed_since(known, [&](NodeId id) {
    if (row.feasible || !serves(id)) return;
    row.feasible = true;
    row.feasible_on = id;
  });
  if (!known_changes) row.feasible = find_server(row);
  return row.feasible;
}

}  // namespace mobula::internal::scheduler
