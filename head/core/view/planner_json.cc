#include "head/core/view/planner_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/model/labels/node_labels.h"
#include "head/core/view/documents.h"

namespace mobula::internal::head {
namespace {

Json amounts_json(const ResourceSet& resources) {
  Json json = Json::object();
  for (const auto& [name, amount] : resources.amounts()) json[name] = number(amount);
  return json;
}

Json request_json(const Request& request) {
  Json json = {{"resources", amounts_json(request.resources)}};
  if (!request.required_totals.empty()) {
    json["required_totals"] = amounts_json(request.required_totals);
  }
  if (request.gpu_memory > 0) json["gpu_memory"] = request.gpu_memory;
  if (!request.accelerator_type.empty()) json["accelerator_type"] = request.accelerator_type;
  if (!request.label_selector.empty()) json["label_selector"] = request.label_selector;
  if (!request.fallback_selectors.empty()) json["fallback_selectors"] = request.fallback_selectors;
  if (std::holds_alternative<SpreadStrategy>(request.strategy)) json["spread"] = true;
  if (const auto* affinity = std::get_if<NodeAffinityStrategy>(&request.strategy)) {
    json["node_id"] = affinity->node.hex();
    json["soft"] = affinity->soft;
  }
  return json;
}

Json shares_json(const Allocation& allocation) {
  Json json = Json::array();
  for (const auto& resource : allocation.resources) {
    for (const auto& each : resource.shares) {
      json.push_back({resource.name, each.index, number(each.amount), each.memory_bytes});
    }
  }
  return json;
}

Json shape_json(const NodeShape& shape) {
  Json resources = Json::array();
  for (const auto& resource : shape.resources) {
    Json row = {{"name", resource.name}, {"unit", resource.unit}, {"instances", Json::array()}};
    for (const auto& each : resource.instances) {
      row["instances"].push_back({{"total", number(each.total)},
                                  {"types", each.types},
                                  {"memory_bytes", each.memory_bytes},
                                  {"context_bytes", each.context_bytes},
                                  {"island", each.island}});
    }
    resources.push_back(std::move(row));
  }
  return {{"resources", std::move(resources)},
          {"accelerator_types", shape.accelerator_types},
          {"labels", shape.labels},
          {"task_executors", shape.task_executors},
          {"actor_executors", shape.actor_executors}};
}

// Bundles of an incomplete group are listed with the group.
bool waits(const HeadTables& tables, GroupId group) {
  const auto* row = tables.scheduler.groups().find(group);
  return row != nullptr && !row->complete();
}

// Sums of the allocations on the node.
void add_use(const HeadTables& tables, const scheduler::Node& node, Json& json) {
  using Key = std::pair<std::string, std::uint32_t>;
  std::map<Key, std::pair<Quantity, std::int64_t>> held;
  std::int64_t tasks = 0, blocked = 0, actors = 0;
  bool quiet = true;
  for (const auto id : tables.scheduler.slots_on(node.id)) {
    const auto& slot = *tables.scheduler.find_slot(id);
    quiet = false;
    switch (scheduler::tenant_of(slot)) {
      case scheduler::Tenant::task: ++(slot.lent ? blocked : tasks); break;
      case scheduler::Tenant::actor: actors += slot.lent ? 0 : 1; break;
      case scheduler::Tenant::bundle:
        if (waits(tables, slot.bundle_of)) continue;
        break;
    }
    if (!slot.allocation.group.empty()) continue;  // counted with its bundle
    for (const auto& resource : slot.allocation.resources) {
      if (slot.lent && resource.name == resource::cpu) continue;
      for (const auto& each : resource.shares) {
        auto& [amount, bytes] = held[{resource.name, each.index}];
        amount += each.amount;
        bytes += each.memory_bytes;
      }
    }
  }
  json["held"] = Json::array();
  for (const auto& [key, sums] : held) {
    json["held"].push_back({key.first, key.second, number(sums.first), sums.second});
  }
  json["task_slots"] = tasks;
  json["blocked_task_slots"] = blocked;
  json["actor_slots"] = actors;
  const auto last = tables.last_use.of(node.id);
  json["idle_ms"] = quiet && last ? Json((tables.now - *last) / 1ms) : Json(nullptr);
}

// Writes the document item by item, so that an oversized one is abandoned early.
class Writer {
 public:
  explicit Writer(std::uint64_t most_bytes) : most_bytes_(most_bytes) {
    text_ = json_text(document("PlannerState"));
    text_.pop_back();
  }

  void begin(const std::string& list) {
    list_ = list;
    count_ = 0;
    text_ += ",\"" + list + "\":[";
  }
  void add(const Json& item) {
    if (++count_ > 1) text_ += ',';
    text_ += json_text(item);
  }
  void end() { text_ += ']'; }
  // Whether no more items may be added.
  bool is_too_long() const { return text_.size() >= most_bytes_; }
  Result<std::string> finish() && {
    if (!is_too_long()) return std::move(text_) + "}";
    return failure(
        ErrorCode::resource_exhausted,
        fmt::format("planner_state: it is longer than {} MiB with {} {}, the limit of one "
                    "reply; the cluster is too large for one plan",
                    most_bytes_ >> 20, count_, list_));
  }

 private:
  std::uint64_t most_bytes_;
  std::string text_;
  std::string list_;  // the latest list
  std::size_t count_ = 0;
};

void write_nodes(const HeadTables& tables, Writer& out) {
  for (const auto& [id, row] : tables.nodes.rows()) {
    if (out.is_too_long()) return;
    const auto* node = tables.scheduler.cluster().nodes().find(id);
    if (node == nullptr || !row.slots_allowed()) continue;
    Json json = {{"node_id", id.hex()},
                 {"usable", node->state == scheduler::NodeState::alive},
                 {"draining", row.draining},
                 {"shape", shape_json(row.shape)}};
    add_use(tables, *node, json);
    json["cannot_start"] = Json::array();
    for (const auto& [program, why] : node->cannot_start) {
      json["cannot_start"].push_back(program.hex());
    }
    out.add(json);
  }
}

// Instances of an autoscaler whose agent has died: one that joins and dies between two questions
// would otherwise seem never to have joined.
void write_dead_instances(const HeadTables& tables, Writer& out) {
  for (const auto& [id, row] : tables.nodes.rows()) {
    if (out.is_too_long()) return;
    if (row.state != NodeState::dead || !row.slots_allowed()) continue;
    const auto label = row.shape.labels.find(instance_label);
    if (label != row.shape.labels.end()) out.add(label->second);
  }
}

// Missing slots of one class, over all lessees.
struct Missing {
  const DemandClass* demand = nullptr;
  std::string name;
  scheduler::Tenant tenant = scheduler::Tenant::task;
  std::int64_t count = 0;
  std::int64_t held = 0;
  Time oldest;
  Duration mean_run{};  // 0: unknown
  Duration stalled{};   // longest stall of a lessee with slots
  std::optional<std::int64_t> allowed{};
};
using MissingByClass = std::map<std::tuple<JobId, ClassId, bool>, Missing>;  // bool: for actors

Missing& add(MissingByClass& missing, const DemandClass& demand, const std::string& name,
             scheduler::Tenant tenant, std::int64_t count, Time oldest) {
  auto& row = missing[{demand.job, demand.id, tenant == scheduler::Tenant::actor}];
  if (row.demand == nullptr) {
    row.demand = &demand;
    row.name = name;
    row.tenant = tenant;
    row.oldest = oldest;
  }
  row.count += count;
  row.oldest = std::min(row.oldest, oldest);
  return row;
}

// Divides the rest of each quota among the classes of its job, in the order of scheduling: by
// priority, held slots, and age.
void divide_quotas(const HeadTables& tables, MissingByClass& missing) {
  std::vector<Missing*> order;
  for (auto& [key, row] : missing) {
    if (!tables.scheduler.terms(row.demand->job).quota.empty()) order.push_back(&row);
  }
  std::ranges::stable_sort(order, {}, [](const Missing* row) {
    return std::tuple(-std::int64_t{row->demand->request.priority}, row->held, row->oldest);
  });
  std::map<JobId, ResourceSet> given;
  for (Missing* row : order) {
    const JobId job = row->demand->job;
    const auto each = scheduler::most_held_by(scheduler::Need(row->demand->request, row->tenant));
    auto& besides = given[job];
    row->allowed = std::min(tables.scheduler.slots_within_quota(job, each, besides), row->count);
    for (const auto& [name, quota] : tables.scheduler.terms(job).quota) {
      besides.add(name, Quantity::from_units(each.get(name).units() * *row->allowed));
    }
  }
}

MissingByClass missing_slots(const HeadTables& tables) {
  MissingByClass missing;
  std::map<SlotTable::DemandKey, std::int64_t> held;
  const auto means = tables.class_use.mean_runs();  // of owners that have run such tasks before
  for (const auto& [id, slot] : tables.slots.rows()) ++held[{slot.lessee, slot.class_id}];
  for (const auto& [key, row] : tables.slots.demands()) {
    const auto& demand = row.demand.demand_class;
    const auto of_lessee = held[key];
    const auto lacking = row.total - of_lessee;
    if (lacking <= 0 || !demand.request.placement.group.empty()) continue;
    auto& sum = add(missing, demand, row.demand.example_name, scheduler::Tenant::task, lacking,
                    row.oldest_waiting);
    sum.held += of_lessee;
    sum.mean_run = std::max(sum.mean_run, row.demand.mean_run);
    if (sum.mean_run == Duration(0)) {
      if (const auto known = means.find(demand.id); known != means.end())
        sum.mean_run = known->second;
    }
    if (of_lessee > 0) sum.stalled = std::max(sum.stalled, tables.now - row.advanced_at);
  }
  for (const auto& [id, actor] : tables.actors.rows()) {
    const auto& demand = actor.spec().demand;
    if (!actor.waits || !actor.slot.empty() || !demand.request.placement.group.empty()) continue;
    add(missing, demand, actor.spec().class_name, scheduler::Tenant::actor, 1, tables.now);
  }
  divide_quotas(tables, missing);
  return missing;
}

void write_slots(const HeadTables& tables, Writer& out) {
  for (const auto& [key, row] : missing_slots(tables)) {
    if (out.is_too_long()) return;
    Json json = {{"class_id", row.demand->id.hex()},
                 {"name", row.name},
                 {"program", row.demand->program.hex()},
                 {"actor", row.tenant == scheduler::Tenant::actor},
                 {"count", row.count},
                 {"held", row.held},
                 {"stalled_ms", row.stalled / 1ms},
                 {"request", request_json(row.demand->request)}};
    if (row.allowed) json["allowed"] = *row.allowed;
    if (row.mean_run > Duration(0)) json["mean_run_us"] = row.mean_run / 1us;
    out.add(json);
  }
}

// Order: groups that lost bundles, then by priority, then by arrival.
void write_groups(const HeadTables& tables, Writer& out) {
  std::vector<const scheduler::Groups::Row*> waiting;
  for (const auto& [id, row] : tables.scheduler.groups().rows()) {
    if (!row.complete() && !row.removing) waiting.push_back(&row);
  }
  std::ranges::sort(waiting, {}, [](const auto* row) {
    return std::tuple(!row->lost, -std::int64_t{row->spec.priority}, row->sequence);
  });
  for (const auto* row : waiting) {
    if (out.is_too_long()) return;
    Json json = {{"placement_group_id", row->spec.id.hex()},
                 {"name", row->spec.name},
                 {"strategy", to_string(row->spec.strategy)},
                 {"program", row->spec.program.hex()},
                 {"bundles", Json::array()}};
    for (std::size_t i = 0; i < row->spec.bundles.size(); ++i) {
      Json bundle = {{"request", request_json(row->spec.bundles[i])}};
      if (!row->locations[i].node.empty()) {
        bundle["node_id"] = row->locations[i].node.hex();
        bundle["held"] = shares_json(row->locations[i].allocation);
      }
      json["bundles"].push_back(std::move(bundle));
    }
    out.add(json);
  }
}

}  // namespace

Result<std::string> planner_json(const HeadTables& tables) {
  Writer out(tables.options.max_planner_bytes);
  const auto write = [&](const char* list, const auto& items) {
    if (out.is_too_long()) return;
    out.begin(list);
    items(tables, out);
    out.end();
  };
  write("nodes", write_nodes);
  write("slots", write_slots);
  write("groups", write_groups);
  write("dead_instances", write_dead_instances);
  write("warnings", [](const HeadTables& of, Writer& to) {
    if (!of.nodes.recovering()) return;
    to.add(fmt::format("the head is recovering and waits for {} nodes", of.nodes.expected()));
  });
  return std::move(out).finish();
}

}  // namespace mobula::internal::head
