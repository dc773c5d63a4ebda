#include "head/core/view/metrics_text.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/model/accelerator_vendor.h"
#include "head/core/head_tables.h"
#include "head/core/nodes/label_values.h"
#include "head/core/view/devices/shared_use.h"
#include "head/core/view/requests/waiting_json.h"
#include "head/core/view/state_json.h"

namespace mobula::internal::head {
namespace {

// Waiting classes whose reason is determined, which takes time proportional to the nodes.
constexpr std::size_t max_explained = 500;

double metric_seconds(Duration span) { return static_cast<double>(span.count()) * 1e-9; }

// Values of the label `node`, short because a scrape of 1,000 nodes of 8 GPUs repeats them 46,000
// times: the first 8 digits of the id, which commands accept, or the whole id of a node whose 8
// digits another node has, too.
class NodeLabels {
 public:
  explicit NodeLabels(const HeadTables& tables) {
    for (const auto& [id, node] : tables.nodes.rows()) {
      if (node.slots_allowed()) ++nodes_[id.hex().substr(0, digits)];
    }
  }
  std::string of(NodeId node) const {
    std::string hex = node.hex();
    const auto same = nodes_.find(hex.substr(0, digits));
    if (same != nodes_.end() && same->second == 1) hex.resize(digits);
    return hex;
  }

 private:
  static constexpr std::size_t digits = 8;
  std::map<std::string, int> nodes_;  // by first digits
};

void add_head(const HeadTables& tables, MetricsWriter& out) {
  out.family("mobula_build_info", "gauge", "Release of the head.");
  out.sample(MetricsWriter::label("version", tables.options.version), 1);
  out.family("mobula_head_epoch", "gauge", "Epoch of the head; it rises with each restart.");
  out.sample("", tables.epoch);
  out.family("mobula_head_leader", "gauge", "1 while this head serves agents and tools.");
  out.sample("", tables.serving ? 1 : 0);
  out.family("mobula_head_recovering", "gauge", "1 while the head waits for known nodes.");
  out.sample("", tables.nodes.recovering() ? 1 : 0);
}

void add_states(MetricsWriter& out, std::string_view name, std::string_view help,
                const std::map<std::string, std::int64_t>& counts) {
  out.family(name, "gauge", help);
  for (const auto& [state, count] : counts) out.sample(MetricsWriter::label("state", state), count);
}

void add_state(const HeadTables& tables, MetricsWriter& out) {
  auto counts = state_counts(tables);
  // States on which alerts depend exist from the start.
  for (const char* state : {"ALIVE", "SUSPECT", "DRAINING", "DEAD"}) counts.nodes[state] += 0;
  for (const char* state : {"PENDING", "RUNNING", "SUCCEEDED", "FAILED"}) counts.jobs[state] += 0;
  for (const char* state : {"PENDING_CREATION", "ALIVE", "RESTARTING", "DEAD"})
    counts.actors[state] += 0;
  add_states(out, "mobula_nodes", "Nodes by state.", counts.nodes);
  add_states(out, "mobula_jobs", "Jobs by state.", counts.jobs);
  add_states(out, "mobula_actors", "Actors by state.", counts.actors);
  add_states(out, "mobula_placement_groups", "Placement groups by state.", counts.groups);
  std::int64_t actors = 0, tasks = 0;
  for (const auto& [id, slot] : tables.slots.rows()) ++(slot.actor.empty() ? tasks : actors);
  out.family("mobula_leases", "gauge", "Granted slots by tenant.");
  out.sample(MetricsWriter::label("tenant", "actor"), actors);
  out.sample(MetricsWriter::label("tenant", "task"), tasks);
}

// Waiting requests by kind and reason, and the longest wait of each kind.
class Pending {
 public:
  explicit Pending(const HeadTables& tables) : tables_(tables) {
    for (const auto& [key, row] : tables.slots.demands()) {
      if (row.demand.wanted_slots <= 0) continue;
      const auto& demand = row.demand.demand_class;
      const auto waiting = std::max<std::int64_t>(row.demand.waiting_tasks, 0);
      counts_[{"task", reason_of(demand, scheduler::Tenant::task)}] += waiting;
      waits("task", row.oldest_waiting);
    }
    for (const auto& [id, actor] : tables.actors.rows()) {
      if (!actor.waits || !actor.slot.empty()) continue;
      const char* kind = actor.spec().entry.given() ? "job" : "actor";
      ++counts_[{kind, reason_of(actor.spec().demand, scheduler::Tenant::actor)}];
      waits(kind, actor.waiting_since);
    }
    for (const auto& [id, group] : tables.groups.rows()) {
      const auto* row = tables.scheduler.groups().find(id);
      if (group.state == GroupState::removed || row == nullptr || row->complete()) continue;
      ++counts_[{"placement_group", group.infeasible ? "Infeasible" : "Resources"}];
    }
  }

  void write(MetricsWriter& out) const {
    out.family("mobula_pending", "gauge", "Waiting tasks, actors, jobs, and placement groups.");
    for (const auto& [key, count] : counts_) {
      out.sample(MetricsWriter::labels("kind", key.first, "reason", key.second), count);
    }
    out.family("mobula_pending_oldest_seconds", "gauge", "Longest present wait for a slot.");
    for (const auto& [kind, since] : oldest_) {
      out.sample(MetricsWriter::label("kind", kind), metric_seconds(tables_.now - since));
    }
  }

 private:
  void waits(const char* kind, Time since) {
    const auto [at, fresh] = oldest_.emplace(kind, since);
    if (!fresh) at->second = std::min(at->second, since);
  }

  std::string reason_of(const DemandClass& demand, scheduler::Tenant tenant) {
    const std::pair key{demand.id, tenant};
    if (const auto known = reasons_.find(key); known != reasons_.end()) return known->second;
    if (reasons_.size() >= max_explained) return "Unknown";
    std::string word = waits_for(tables_, demand, tenant);
    std::erase_if(word, [](char c) { return c == '(' || c == ')'; });
    return reasons_.emplace(key, std::move(word)).first->second;
  }

  const HeadTables& tables_;
  std::map<std::pair<std::string, std::string>, std::int64_t> counts_{
      {{"task", "Resources"}, 0}, {{"task", "Infeasible"}, 0}, {{"actor", "Infeasible"}, 0}};
  std::map<std::string, Time> oldest_;
  std::map<std::pair<ClassId, scheduler::Tenant>, std::string> reasons_;
};

void add_tasks(const HeadTables& tables, MetricsWriter& out) {
  std::vector<std::pair<std::string, UseTotals>> rows;
  for (auto& [name, totals] : tables.class_use.totals()) {
    rows.emplace_back(MetricsWriter::label("name", name), totals);
  }
  rows.emplace_back(MetricsWriter::label("name", LabelValues::other), tables.class_use.other());
  const auto add = [&](const char* name, const char* help, auto member) {
    out.family(name, "counter", help);
    for (const auto& [label, totals] : rows) out.sample(label, totals.*member);
  };
  add("mobula_tasks_submitted_total", "Submitted calls.", &UseTotals::submitted);
  add("mobula_tasks_finished_total", "Calls that returned a value.", &UseTotals::finished);
  add("mobula_tasks_failed_total", "Calls that ended with an error.", &UseTotals::failed);
  add("mobula_tasks_cancelled_total", "Cancelled calls.", &UseTotals::cancelled);
  out.family("mobula_task_wait_seconds", "histogram", "Time from submission to an executor.");
  for (const auto& [label, totals] : rows) out.histogram(label, totals.waits, totals.wait_us);
  out.family("mobula_task_run_seconds", "histogram", "Run time of user code.");
  for (const auto& [label, totals] : rows) out.histogram(label, totals.runs, totals.run_us);
}

void add_starts(const HeadTables& tables, MetricsWriter& out) {
  const auto& counts = tables.counts;
  out.family("mobula_slot_grant_seconds", "histogram", "Wait of the oldest request of a grant.");
  out.histogram("", counts.slot_grants.counts, counts.slot_grants.total_us);
  out.family("mobula_actor_start_seconds", "histogram", "Time until a constructor has returned.");
  out.histogram("", counts.actor_starts.counts, counts.actor_starts.total_us);
  static constexpr const char* causes[end_kinds] = {"exited",    "signalled",    "out_of_memory",
                                                    "retired",   "intended",     "killed",
                                                    "node_died", "start_failed", "group_removed"};
  out.family("mobula_executor_ends_total", "counter", "Ended executors by cause.");
  for (std::size_t i = 0; i < end_kinds; ++i) {
    out.sample(MetricsWriter::label("cause", causes[i]), counts.executor_ends[i]);
  }
  const auto& preemptions = tables.slots.preemptions();
  out.family("mobula_preemptions_total", "counter", "Slots preempted for work of higher priority.");
  out.sample("", preemptions.requested - preemptions.refused);
}

void add_nodes(const HeadTables& tables, const NodeLabels& labels_of, MetricsWriter& out) {
  std::vector<std::pair<std::string, const UsageReply*>> rows;
  for (const auto& [id, usage] : tables.samples.rows()) {
    const Node* node = tables.nodes.find(id);
    if (node == nullptr || !node->registered()) continue;
    rows.emplace_back(MetricsWriter::labels("node", labels_of.of(id), "host", node->host), &usage);
  }
  const auto add = [&](const char* name, const char* type, const char* help, const auto& value_of) {
    out.family(name, type, help);
    for (const auto& [labels, usage] : rows) out.sample(labels, value_of(*usage));
  };
  using Usage = UsageReply;
  add("mobula_node_cpu_seconds_total", "counter", "Busy time of all CPUs of the machine.",
      [](const Usage& of) { return metric_seconds(of.cpu); });
  add("mobula_node_memory_bytes", "gauge", "Memory of the machine.",
      [](const Usage& of) { return of.memory_bytes; });
  add("mobula_node_memory_used_bytes", "gauge", "Used memory of the machine.",
      [](const Usage& of) { return of.memory_used_bytes; });
  add("mobula_node_store_capacity_bytes", "gauge", "Capacity of the object store.",
      [](const Usage& of) { return of.store.capacity_bytes; });
  add("mobula_node_store_used_bytes", "gauge", "Bytes of objects in memory.",
      [](const Usage& of) { return of.store.used_bytes; });
  add("mobula_node_store_spilled_bytes", "gauge", "Bytes of objects that are only on disk.",
      [](const Usage& of) { return of.store.spilled_bytes; });
}

struct GpuRow {
  std::string labels;
  std::string type;
  double booked = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t booked_bytes = 0;
  std::int64_t used_bytes = -1;    // not sampled
  std::int32_t busy_percent = -1;  // not sampled
  bool over_share = false;
};

// Adds the allocations on the node. Slots in bundles are part of their bundle.
void add_booked(const HeadTables& tables, NodeId node, std::vector<GpuRow>& gpus) {
  for (const auto id : tables.scheduler.slots_on(node)) {
    const auto& slot = *tables.scheduler.find_slot(id);
    const Slot* row = tables.slots.find(id);
    for (const auto& resource : slot.allocation.resources) {
      if (resource.name != resource::gpu) continue;
      for (const auto& share : resource.shares) {
        if (share.index >= gpus.size()) continue;
        auto& gpu = gpus[share.index];
        gpu.over_share |= row != nullptr && !row->over_share.empty();
        if (!slot.allocation.group.empty()) continue;
        gpu.booked += share.amount.to_double();
        gpu.booked_bytes += share.memory_bytes;
      }
    }
  }
}

std::vector<GpuRow> gpus_of(const HeadTables& tables, const Node& node,
                            const NodeLabels& labels_of) {
  std::vector<GpuRow> gpus;
  const auto* shape = node.shape.find(resource::gpu);
  if (shape == nullptr || !node.registered() || !node.slots_allowed()) return gpus;
  const std::string id = labels_of.of(node.id);
  for (std::size_t i = 0; i < shape->instances.size(); ++i) {
    const auto& instance = shape->instances[i];
    gpus.push_back({.labels = MetricsWriter::labels("node", id, "gpu", std::to_string(i)),
                    .type = instance.types.empty() ? std::string() : instance.types.front(),
                    .memory_bytes = instance.memory_bytes});
  }
  add_booked(tables, node.id, gpus);
  const auto sample = tables.samples.rows().find(node.id);
  if (sample == tables.samples.rows().end()) return gpus;
  for (const auto& each : sample->second.devices) {
    if (each.device >= gpus.size()) continue;
    gpus[each.device].used_bytes = each.used_bytes;
    gpus[each.device].busy_percent = each.busy_percent;
  }
  return gpus;
}

// Six samples per GPU are most of a scrape, so one of them has the type, and over-use is a sample
// only while there is some.
void add_gpus(const HeadTables& tables, const NodeLabels& labels_of, MetricsWriter& out) {
  std::vector<GpuRow> rows;
  for (const auto& [id, node] : tables.nodes.rows()) {
    auto gpus = gpus_of(tables, node, labels_of);
    std::ranges::move(gpus, std::back_inserter(rows));
  }
  const auto add = [&](const char* name, const char* help, const auto& value_of) {
    out.family(name, "gauge", help);
    for (const auto& row : rows) out.sample(row.labels, value_of(row));
  };
  add("mobula_gpu_booked_ratio", "Granted fraction of the GPU.",
      [](const GpuRow& row) { return row.booked; });
  out.family("mobula_gpu_memory_bytes", "gauge", "Memory of the GPU, with its type.");
  for (const auto& row : rows) {
    out.sample(row.labels + "," + MetricsWriter::label("type", row.type), row.memory_bytes);
  }
  add("mobula_gpu_memory_booked_bytes", "Granted memory of the GPU.",
      [](const GpuRow& row) { return row.booked_bytes; });
  out.family("mobula_gpu_memory_used_bytes", "gauge", "Used memory of the GPU, if it is sampled.");
  for (const auto& row : rows) {
    if (row.used_bytes >= 0) out.sample(row.labels, row.used_bytes);
  }
  out.family("mobula_gpu_utilization_ratio", "gauge",
             "Part of the last second in which a kernel ran on the GPU, if it is sampled.");
  for (const auto& row : rows) {
    if (row.busy_percent >= 0) out.sample(row.labels, row.busy_percent / 100.0);
  }
  out.family("mobula_gpu_over_share", "gauge",
             "1 while an executor exceeds its share of the GPU, otherwise absent.");
  for (const auto& row : rows) {
    if (row.over_share) out.sample(row.labels, 1);
  }
}

void add_transfers(const HeadTables& tables, MetricsWriter& out) {
  auto counts = tables.transfer_counts.of_cluster();
  counts[DirectPath::store].path = DirectPath::store;
  out.family("mobula_transfer_bytes_total", "counter", "Bytes of completed transfers by path.");
  for (const auto& [path, each] : counts) {
    out.sample(MetricsWriter::label("path", to_string(path)), each.bytes);
  }
  out.family("mobula_transfer_failures_total", "counter", "Failed transfer attempts by path.");
  for (const auto& [path, each] : counts) {
    out.sample(MetricsWriter::label("path", to_string(path)), each.failures);
  }
}

void add_fleet_family(MetricsWriter& out, std::string_view name, std::string_view type,
                      std::string_view help, std::string_view label,
                      const std::vector<FleetCount>& counts) {
  out.family(name, type, help);
  for (const auto& each : counts) {
    out.sample(
        MetricsWriter::label("type", each.type) + "," + MetricsWriter::label(label, each.what),
        each.count);
  }
}

// Without an autoscaler the families are absent.
void add_fleet(const HeadTables& tables, MetricsWriter& out) {
  if (!tables.fleet.is_current()) return;
  add_fleet_family(out, "mobula_autoscaler_instances", "gauge",
                   "Instances of the autoscaler by node type and state.", "state",
                   tables.fleet.instances());
  add_fleet_family(out, "mobula_autoscaler_failures_total", "counter",
                   "Failed launch calls of the autoscaler by node type and kind.", "kind",
                   tables.fleet.failures());
}

}  // namespace

void add_resources(const scheduler::Use& use, Time now, LabelValues& values, MetricsWriter& out) {
  struct Amounts {
    double total = 0;
    double used = 0;
  };
  std::map<std::string, Amounts> rows;
  for (const auto& [name, each] : use) values.note(name, now);
  for (const auto& [name, each] : use) {
    const bool is_predefined = name == resource::cpu || name == resource::memory ||
                               name == resource::object_store_memory ||
                               vendor_of_resource(name) != nullptr;
    auto& row = rows[is_predefined ? name : values.value_of(name, now)];
    row.total += each.total.to_double();
    row.used += (each.total - each.available).to_double();
  }
  const auto add = [&](const char* family, const char* help, double Amounts::*amount) {
    out.family(family, "gauge", help);
    for (const auto& [name, row] : rows)
      out.sample(MetricsWriter::label("resource", name), row.*amount);
  };
  add("mobula_resource_total", "Resources of all nodes.", &Amounts::total);
  add("mobula_resource_used", "Granted resources of all nodes.", &Amounts::used);
}

std::string metrics_text(const HeadTables& tables, LabelValues& resource_labels) {
  MetricsWriter out;
  const NodeLabels labels_of(tables);
  add_head(tables, out);
  add_state(tables, out);
  Pending(tables).write(out);
  add_resources(shared_use(tables), tables.now, resource_labels, out);
  add_tasks(tables, out);
  add_starts(tables, out);
  add_nodes(tables, labels_of, out);
  add_gpus(tables, labels_of, out);
  add_transfers(tables, out);
  add_fleet(tables, out);
  return std::move(out).take();
}

}  // namespace mobula::internal::head
