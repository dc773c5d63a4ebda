#include "head/core/view/requests/waiting_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "head/core/view/requests/explain_json.h"

namespace mobula::internal::head {
namespace {

// Limit of inspected nodes per reply, about 20 ms.
constexpr std::size_t max_scanned = 20'000;
constexpr std::size_t most_rules = 3;

struct Why {
  std::string word;
  std::string text;
};

struct Shape {
  std::string request;
  ResourceSet resources;
  Why why;
  std::int64_t count = 0;
  std::set<JobId> jobs;
  std::string id;
};

std::string request_of(const Request& request, scheduler::Tenant tenant) {
  std::string text = to_string(scheduler::Need(request, tenant));
  for (const auto& [name, amount] : request.required_totals.amounts()) {
    text += fmt::format(", {} {} on the node", name, amount.to_string());
  }
  if (!request.accelerator_type.empty()) text += ", accelerator_type " + request.accelerator_type;
  for (const auto& [key, value] : request.label_selector)
    text += fmt::format(", {}={}", key, value);
  if (!request.fallback_selectors.empty()) {
    text += fmt::format(", or {} other selectors", request.fallback_selectors.size());
  }
  if (const auto* affinity = std::get_if<NodeAffinityStrategy>(&request.strategy)) {
    text += fmt::format(", {}node {}", affinity->soft ? "if possible " : "", affinity->node.hex());
  }
  if (!request.placement.group.empty()) text += ", group " + request.placement.group.hex();
  return text;
}

std::string request_of(const GroupSpec& spec) {
  std::vector<std::pair<std::string, int>> kinds;
  for (const auto& bundle : spec.bundles) {
    auto request = request_of(bundle, scheduler::Tenant::bundle);
    const auto same = std::ranges::find(kinds, request, &std::pair<std::string, int>::first);
    if (same != kinds.end()) {
      ++same->second;
    } else {
      kinds.emplace_back(std::move(request), 1);
    }
  }
  std::string text(to_string(spec.strategy));
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (i == most_rules) return text + fmt::format(" + {} other kinds", kinds.size() - i);
    text += fmt::format("{}{} x {{{}}}", i == 0 ? " " : " + ", kinds[i].second, kinds[i].first);
  }
  return text;
}

// Returns "2 nodes: GPU: needs 2, the node has none; 1 node: …", the most frequent rule first.
std::string rules_text(const std::vector<NodeReason>& nodes) {
  std::map<std::string, std::size_t> counts;
  for (const auto& each : nodes) ++counts[to_string(each.reason)];
  std::vector<std::pair<std::size_t, std::string>> rules;
  rules.reserve(counts.size());
  for (const auto& [rule, count] : counts) rules.emplace_back(count, rule);
  std::ranges::stable_sort(rules, std::greater<>(), &std::pair<std::size_t, std::string>::first);
  std::string text;
  std::size_t others = 0;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const auto& [count, rule] = rules[i];
    if (i >= most_rules) {
      others += count;
      continue;
    }
    text += fmt::format("{}{} node{}: {}", i == 0 ? "" : "; ", count, count == 1 ? "" : "s", rule);
  }
  if (others > 0)
    text += fmt::format("; {} node{} for other reasons", others, others == 1 ? "" : "s");
  return text;
}

class Waiting {
 public:
  explicit Waiting(const HeadTables& tables)
      : tables_(tables), nodes_(tables.scheduler.cluster().nodes().size()) {}

  // Adds `count` requests of the class.
  void add(const char* kind, const DemandClass& demand, scheduler::Tenant tenant,
           std::int64_t count, const std::string& id, const std::vector<NodeId>& callers) {
    const Why why = why_of(demand, tenant, callers);
    auto& shape = shapes_[{kind, request_of(demand.request, tenant), why.word}];
    if (shape.count == 0) {
      shape.resources = scheduler::most_held_by(scheduler::Need(demand.request, tenant));
      shape.why = why;
      shape.id = id;
    }
    shape.count += count;
    shape.jobs.insert(demand.job);
  }

  void add(const Group& group) {
    const Why why = why_of(group);
    auto& shape = shapes_[{"placement groups", request_of(group.spec), why.word}];
    if (shape.count == 0) {
      for (const auto& bundle : group.spec.bundles) {
        scheduler::add_at_most(shape.resources, scheduler::most_held_by(scheduler::Need(
                                                    bundle, scheduler::Tenant::bundle)));
      }
      shape.why = why;
      shape.id = group.spec.id.hex();
    }
    ++shape.count;
    shape.jobs.insert(group.spec.job);
  }

  Json json() const {
    Json items = Json::array();
    for (const auto& row : shapes_) {
      if (items.size() >= tables_.options.max_listed) break;
      items.push_back(item_json(row));
    }
    return items;
  }

  void add_part(const ListPart& part, Json& json) const {
    std::vector<const Row*> rows;
    std::int64_t requests = 0, infeasible = 0;
    for (const auto& row : shapes_) {
      const auto& [key, shape] = row;
      requests += shape.count;
      if (is_infeasible(row)) infeasible += shape.count;
      const auto text = fmt::format("{} {} {} {}", std::get<0>(key), std::get<1>(key),
                                    shape.why.word, shape.why.text);
      if (contains(text, part.find)) rows.push_back(&row);
    }
    std::ranges::stable_sort(rows, std::greater<>(), [](const Row* row) {
      return std::pair(is_infeasible(*row), row->second.count);
    });
    json["waiting"] = Json::array();
    for (std::size_t i = 0; i < std::min(part.limit, rows.size()); ++i)
      json["waiting"].push_back(item_json(*rows[i]));
    json["waiting_matching"] = rows.size();
    json["waiting_total"] = {
        {"shapes", shapes_.size()}, {"requests", requests}, {"infeasible", infeasible}};
  }

 private:
  using Row = std::pair<const std::tuple<std::string, std::string, std::string>, Shape>;

  static bool is_infeasible(const Row& row) { return row.second.why.word == "(Infeasible)"; }

  static Json item_json(const Row& row) {
    const auto& [key, shape] = row;
    return {{"kind", std::get<0>(key)},
            {"asks", std::get<1>(key)},
            {"resources", resources_json(shape.resources)},
            {"count", shape.count},
            {"jobs", shape.jobs.size()},
            {"reason", shape.why.word},
            {"text", shape.why.text},
            {"id", shape.id}};
  }

  bool may_scan(std::size_t times) {
    const auto scanned = times * std::max<std::size_t>(nodes_, 1);
    if (scanned_ + scanned > max_scanned) return false;
    scanned_ += scanned;
    return true;
  }

  Why why_of(const DemandClass& demand, scheduler::Tenant tenant,
             const std::vector<NodeId>& callers) {
    Why why{waits_for(tables_, demand, tenant), ""};
    const auto group = demand.request.placement.group;
    if (!group.empty()) {
      const Group* row = tables_.groups.find(group);
      if (row != nullptr && row->state == GroupState::pending)
        return {why.word, "its placement group waits"};
    }
    why.text = tables_.fleet.reason_of(demand.id);
    if (!why.text.empty() || !may_scan(2)) return why;
    const auto explanation =
        tables_.scheduler.explain(tables_.jobs.with_job_env(demand), tenant, callers);
    if (explanation.held_back && (explanation.feasible || explanation.never_allowed)) {
      return {why.word, to_string(*explanation.held_back)};
    }
    why.text = explanation.nodes.empty() ? "there is no node" : rules_text(explanation.nodes);
    return why;
  }

  Why why_of(const Group& group) {
    if (group.infeasible) return {"(Infeasible)", group.why};
    if (!may_scan(8 * group.spec.bundles.size())) return {"(Resources)", ""};
    const auto explanation = tables_.scheduler.explain(group.spec);
    const char* word = explanation.held_back           ? "(Quota)"
                       : !explanation.reserved.empty() ? "(Reserved)"
                       : !explanation.feasible         ? "(Infeasible)"
                                                       : "(Resources)";
    return {word, reason_of(explanation)};
  }

  const HeadTables& tables_;
  std::size_t nodes_;
  std::size_t scanned_ = 0;
  std::map<std::tuple<std::string, std::string, std::string>, Shape> shapes_;
};

}  // namespace

std::string waits_for(const HeadTables& tables, const DemandClass& demand,
                      scheduler::Tenant tenant) {
  const auto group = demand.request.placement.group;
  if (!group.empty()) {
    const Group* row = tables.groups.find(group);
    if (row == nullptr || row->state != GroupState::created) return "(Group)";
  }
  if (!tables.scheduler.can_ever(demand, tenant)) return "(Infeasible)";
  if (!group.empty()) return "(Group)";
  const auto held_back = tables.scheduler.held_back(demand, tenant);
  if (!held_back) return "(Resources)";
  if (held_back->code == ReasonCode::reserved_for_older) return "(Reserved)";
  return "(" + std::string(to_string(held_back->code)) + ")";
}

namespace {

Waiting waiting_shapes(const HeadTables& tables) {
  Waiting waiting(tables);
  // Many lessees of one class have the same request.
  struct Counted {
    const DemandRow* example = nullptr;
    ProcessId lessee;
    std::int64_t tasks = 0;
  };
  std::map<ClassId, Counted> classes;
  for (const auto& [key, row] : tables.slots.demands()) {
    if (row.demand.wanted_slots <= 0) continue;
    Counted& of = classes[key.second];
    if (of.example == nullptr) {
      of.example = &row;
      of.lessee = key.first;
    }
    of.tasks += std::max<std::int64_t>(row.demand.waiting_tasks, 0);
  }
  for (const auto& [id, counted] : classes) {
    waiting.add("tasks", counted.example->demand.demand_class, scheduler::Tenant::task,
                counted.tasks, id.hex(), {tables.processes.node_of(counted.lessee)});
  }
  for (const auto& [id, actor] : tables.actors.rows()) {
    if (!actor.waits || !actor.slot.empty()) continue;
    const bool is_job = actor.spec().entry.given();
    waiting.add(is_job ? "jobs" : "actors", actor.spec().demand, scheduler::Tenant::actor, 1,
                is_job ? actor.spec().job.hex() : id.hex(), tables.actors.callers_of(actor));
  }
  for (const auto& [id, group] : tables.groups.rows()) {
    const auto* row = tables.scheduler.groups().find(id);
    if (group.state != GroupState::removed && row != nullptr && !row->complete())
      waiting.add(group);
  }
  return waiting;
}

}  // namespace

Json waiting_json(const HeadTables& tables) { return waiting_shapes(tables).json(); }

void add_waiting_part(const HeadTables& tables, const ListPart& part, Json& json) {
  waiting_shapes(tables).add_part(part, json);
}

}  // namespace mobula::internal::head
