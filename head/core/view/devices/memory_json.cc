#include "head/core/view/devices/memory_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "head/core/view/documents.h"

namespace mobula::internal::head {
namespace {

Json holders_json(const ObjectFact& object) {
  Json holders = Json::array();
  for (const HolderFact& each : object.holders) {
    holders.push_back({{"role", to_string(each.role)},
                       {"pid", each.pid},
                       {"process_id", each.process.hex()},
                       {"actor_class", each.actor_class},
                       {"task", each.task},
                       {"reads", each.reads}});
  }
  return holders;
}

Json object_json(NodeId node, const ObjectFact& object) {
  Json nodes = Json::array();
  for (const NodeId holder : object.holding_nodes) nodes.push_back(holder.hex());
  std::uint64_t readers = 0;
  for (const HolderFact& each : object.holders) readers += each.reads ? 1 : 0;
  return {{"object_id", object.object.hex()},
          {"state", state_of(object)},
          {"copy", object.secondary},
          {"size_bytes", object.size_bytes},
          {"node_id", node.hex()},
          {"job_id", id_json(object.job)},
          {"home", id_json(object.home)},
          {"processes", object.processes},
          {"readers", readers},
          {"holders", holders_json(object)},
          {"holding_nodes", std::move(nodes)}};
}

Json store_json(NodeId node, const StoreFact& store) {
  return {{"node_id", node.hex()},
          {"capacity_bytes", store.capacity_bytes},
          {"committed_bytes", store.committed_bytes},
          {"used_bytes", store.used_bytes},
          {"spilled_bytes", store.spilled_bytes},
          {"file_bytes", store.file_bytes},
          {"spilling", store.spilling},
          {"leaving_objects", store.leaving_objects},
          {"leaving_bytes", store.leaving_bytes}};
}

}  // namespace

std::string state_of(const ObjectFact& object) {
  if (!object.sealed) return "RESERVED";
  return object.spilled ? "SPILLED" : "SEALED";
}

std::string memory_json(std::vector<ObjectQuery::Item> items,
                        const std::vector<ObjectQuery::Store>& stores,
                        std::vector<std::string> warnings, std::size_t limit) {
  std::ranges::stable_sort(items, std::greater{},
                           [](const auto& each) { return each.object.size_bytes; });
  if (items.size() > limit) {
    warnings.push_back(
        fmt::format("{} of {} objects are left out", items.size() - limit, items.size()));
    items.resize(limit);
  }
  Json json = document("MemoryReport");
  json["nodes"] = Json::array();
  for (const auto& [node, store] : stores) json["nodes"].push_back(store_json(node, store));
  json["items"] = Json::array();
  for (const auto& [node, object] : items) json["items"].push_back(object_json(node, object));
  json["warnings"] = std::move(warnings);
  return json_text(json);
}

}  // namespace mobula::internal::head
