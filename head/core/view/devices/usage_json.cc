#include "head/core/view/devices/usage_json.h"

#include <fmt/format.h>

namespace mobula::internal::head {
namespace {

double in_seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

Json bytes_json(const std::vector<DeviceTaken>& devices) {
  Json json = Json::array();
  for (const auto& each : devices)
    json.push_back({{"index", each.device}, {"used_bytes", each.used_bytes}});
  return json;
}

// The devices of the node, with the memory in use if the agent reports it.
Json gpu_use_json(const Node& node, const UsageReply& usage) {
  Json gpus = Json::array();
  for (const auto& resource : node.shape.resources) {
    if (resource.name != "GPU") continue;
    for (std::size_t i = 0; i < resource.instances.size(); ++i) {
      Json used = nullptr, busy = nullptr;
      for (const auto& each : usage.devices) {
        if (each.device != i) continue;
        used = each.used_bytes;
        if (each.busy_percent >= 0) busy = each.busy_percent;
      }
      gpus.push_back({{"index", i},
                      {"used_bytes", used},
                      {"busy_percent", busy},
                      {"memory_bytes", resource.instances[i].memory_bytes}});
    }
  }
  return gpus;
}

Json processor_and_memory_json(const UsageReply& usage) {
  return {{"cpu_s", in_seconds(usage.cpu)},
          {"cpus", usage.cpus},
          {"memory_used_bytes", usage.memory_used_bytes},
          {"memory_bytes", usage.memory_bytes},
          {"store_used_bytes", usage.store.used_bytes},
          {"store_capacity_bytes", usage.store.capacity_bytes},
          {"store_spilled_bytes", usage.store.spilled_bytes}};
}

Json node_usage_json(NodeId id, const Node* node, const NodeUsage& of) {
  const UsageReply& usage = of.usage;
  Json json = {{"node_id", id.hex()},
               {"host", node == nullptr ? "" : node->host},
               {"at_s", in_seconds(usage.at)},
               {"clock_ms", usage.wall_ms == 0 ? Json(nullptr) : Json(usage.wall_ms)},
               {"head_clock_ms", of.head_ms}};
  json.update(processor_and_memory_json(usage));
  json["gpus"] = node == nullptr ? Json::array() : gpu_use_json(*node, usage);
  return json;
}

std::int64_t gpu_used_bytes_of(const UsageReply& usage) {
  std::int64_t sum = 0;
  for (const auto& each : usage.devices) sum += each.used_bytes;
  return sum;
}

// Without the members that no view shows: a cluster may have 1,000 nodes of 8 GPUs.
Json node_part_json(NodeId id, const UsageReply& usage, UsagePart part) {
  Json json = {{"node_id", id.hex()}};
  if (part == UsagePart::gpus) {
    json["gpus"] = bytes_json(usage.devices);
    return json;
  }
  json["at_s"] = in_seconds(usage.at);
  json.update(processor_and_memory_json(usage));
  json["gpu_used_bytes"] = gpu_used_bytes_of(usage);
  return json;
}

Json executor_usage_json(const HeadTables& tables, NodeId node, const UsageReply& usage,
                         const ExecutorUsage& each) {
  const auto* slot = tables.slots.find(each.slot);
  const Actor* actor =
      slot == nullptr || slot->actor.empty() ? nullptr : tables.actors.find(slot->actor);
  return {{"process_id", slot == nullptr ? Json(nullptr) : id_json(slot->endpoint.process)},
          {"node_id", node.hex()},
          {"slot_id", each.slot.hex()},
          {"job_id", slot == nullptr ? Json(nullptr) : id_json(slot->job)},
          {"actor_id", slot == nullptr ? Json(nullptr) : id_json(slot->actor)},
          {"actor_name", actor == nullptr ? "" : actor->spec().name},
          {"name", each.running},
          {"pid", each.pid},
          {"at_s", in_seconds(usage.at)},
          {"cpu_s", in_seconds(each.cpu)},
          {"resident_bytes", each.resident_bytes},
          {"own_bytes", each.own_bytes},
          {"threads", each.threads},
          {"partial", each.partial},
          {"gpus", bytes_json(each.devices)}};
}

}  // namespace

Json usage_json(const HeadTables& tables, const std::map<NodeId, NodeUsage>& usages, UsagePart part,
                std::uint64_t limit, std::vector<std::string> warnings) {
  Json json = document("Usage");
  json["nodes"] = Json::array();
  json["items"] = Json::array();
  std::uint64_t left_out = 0, partial = 0;
  for (const auto& [id, of] : usages) {
    const UsageReply& usage = of.usage;
    if (part != UsagePart::all) {
      json["nodes"].push_back(node_part_json(id, usage, part));
      continue;
    }
    json["nodes"].push_back(node_usage_json(id, tables.nodes.find(id), of));
    left_out += usage.left_out;
    for (const auto& each : usage.executors) {
      partial += each.partial ? 1 : 0;
      if (json["items"].size() >= limit) {
        ++left_out;
      } else {
        json["items"].push_back(executor_usage_json(tables, id, usage, each));
      }
    }
  }
  if (partial > 0) {
    warnings.push_back(
        fmt::format("the usage of {} executors is not complete: they have more processes below "
                    "them than are sampled",
                    partial));
  }
  if (left_out > 0) warnings.push_back(fmt::format("{} executors are left out", left_out));
  json["warnings"] = warnings;
  return json;
}

Json sampled_use_json(const HeadTables& tables, NodeId node) {
  const auto sample = tables.samples.rows().find(node);
  if (sample == tables.samples.rows().end()) return nullptr;
  Json json = processor_and_memory_json(sample->second);
  json["gpu_used_bytes"] = gpu_used_bytes_of(sample->second);
  const auto busy = tables.history.busy_cpus().find(node);
  json["busy_cpus"] = busy == tables.history.busy_cpus().end() ? Json(nullptr) : Json(busy->second);
  return json;
}

Json sampled_sums_json(const HeadTables& tables) {
  UsageReply sums;
  std::int64_t gpu_used_bytes = 0;
  for (const auto& [node, usage] : tables.samples.rows()) {
    sums.cpus += usage.cpus;
    sums.memory_used_bytes += usage.memory_used_bytes;
    sums.memory_bytes += usage.memory_bytes;
    sums.store.used_bytes += usage.store.used_bytes;
    gpu_used_bytes += gpu_used_bytes_of(usage);
  }
  double busy = 0;
  for (const auto& [node, cpus] : tables.history.busy_cpus()) busy += cpus;
  return {{"nodes", tables.samples.rows().size()},
          {"cpus", sums.cpus},
          {"busy_cpus", tables.history.busy_cpus().empty() ? Json(nullptr) : Json(busy)},
          {"memory_used_bytes", sums.memory_used_bytes},
          {"memory_bytes", sums.memory_bytes},
          {"store_used_bytes", sums.store.used_bytes},
          {"gpu_used_bytes", gpu_used_bytes}};
}

}  // namespace mobula::internal::head
