#include "client/engine/tensors/tensor_holders.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace mobula::internal::client {
namespace {

using Json = nlohmann::json;

std::string name_of(const Json& holder, const std::string& node) {
  std::string name = holder.value("role", "process");
  const std::string actor = holder.value("actor_class", "");
  const std::string task = holder.value("task", "");
  if (!actor.empty()) name = "actor " + actor;
  if (!task.empty() && task != actor)
    name += (actor.empty() ? " that runs " : ", which runs ") + task;
  return fmt::format("{} (pid {} on node {})", name, holder.value("pid", std::int64_t{0}),
                     node.substr(0, 8));
}

}  // namespace

std::vector<TensorHolder> tensor_holders(std::string_view document, ProcessId own) {
  std::vector<TensorHolder> holders;
  const Json json = Json::parse(document, nullptr, false);
  if (!json.is_object() || !json.contains("items")) return holders;
  std::set<std::string> listed;  // nodes that list a holder
  try {
    for (const Json& item : json.at("items")) {
      const std::string node = item.at("node_id");
      for (const Json& each : item.at("holders")) {
        const auto process = ProcessId::from_hex(each.at("process_id").get<std::string>());
        if (!process) continue;
        listed.insert(node);
        const bool known =
            std::ranges::find(holders, *process, &TensorHolder::process) != holders.end();
        if (!known && *process != own) holders.push_back({*process, name_of(each, node)});
      }
    }
    for (const Json& item : json.at("items")) {
      for (const Json& each : item.at("holding_nodes")) {
        const std::string node = each;
        if (!listed.insert(node).second) continue;
        holders.push_back({{}, "a process on node " + node.substr(0, 8)});
      }
    }
  } catch (const Json::exception&) {
    return {};
  }
  return holders;
}

ProcessId sole_holder(const std::vector<TensorHolder>& holders) {
  return holders.size() == 1 ? holders.front().process : ProcessId();
}

CallerState caller_state(std::string_view document, TaskId task) {
  const Json json = Json::parse(document, nullptr, false);
  CallerState state;
  try {
    const Json& item = json.contains("items") ? json.at("items").at(0) : json;
    if (item.at("task_id").get<std::string>() != task.hex()) return {};
    state.caller = ProcessId::from_hex(item.at("owner").get<std::string>()).value_or(ProcessId());
    state.awaits = item.value("awaited", false);
    for (const Json& each : item.value("argument_tensors", Json::array())) {
      if (const auto object = ObjectId::from_hex(each.get<std::string>()))
        state.tensors.push_back(*object);
    }
  } catch (const Json::exception&) {
    return {};
  }
  return state;
}

TaskId only_call_of(std::string_view document, ProcessId executor) {
  const Json json = Json::parse(document, nullptr, false);
  TaskId found;
  try {
    for (const Json& item : json.at("items")) {
      if (item.at("state") != "RUNNING" || item.at("executor") != executor.hex()) continue;
      if (!found.empty()) return {};
      found = TaskId::from_hex(item.at("task_id").get<std::string>()).value_or(TaskId());
    }
  } catch (const Json::exception&) {
    return {};
  }
  return found;
}

}  // namespace mobula::internal::client
