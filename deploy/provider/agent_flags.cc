#include "deploy/provider/agent_flags.h"

#include <fmt/format.h>

#include <cmath>

#include "base/model/resources.h"
#include "base/text/json_writer.h"

namespace mobula::internal::provider {
namespace {

std::string amount_text(double amount) {
  if (amount == std::floor(amount)) return fmt::format("{}", static_cast<std::int64_t>(amount));
  return fmt::format("{}", amount);
}

}  // namespace

Result<std::vector<std::string>> agent_flags(const fleet::InstanceSpec& instance,
                                             const std::string& head,
                                             const std::string& ticket_file, bool with_machine) {
  std::vector<std::string> flags;
  if (!instance.ticket.empty()) {
    flags.insert(flags.end(), {"--join", "@" + ticket_file});
  } else if (!head.empty()) {
    flags.insert(flags.end(), {"--address", head});
  } else {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("launch {}: the request has neither a ticket nor the address of the "
                               "head",
                               instance.name));
  }
  std::string labels;
  for (const auto& [name, value] : instance.labels)
    labels += fmt::format("{}{}={}", labels.empty() ? "" : ",", name, value);
  if (!labels.empty()) flags.insert(flags.end(), {"--labels", labels});
  nlohmann::ordered_json others = nlohmann::ordered_json::object();
  for (const auto& [name, amount] : instance.resources) {
    const bool of_machine = name == "CPU" || name == "GPU" || name == "memory";
    if (of_machine && !with_machine) continue;
    if (name == "CPU") {
      flags.insert(flags.end(), {"--num-cpus", amount_text(amount)});
    } else if (name == "GPU") {
      flags.insert(flags.end(), {"--num-gpus", amount_text(amount)});
    } else if (name == "memory") {
      flags.insert(flags.end(), {"--memory", amount_text(amount)});
    } else if (name.starts_with(resource::accelerator_prefix)) {
      // The devices of a machine state their type; the provider of logical devices passes it.
      if (with_machine) {
        flags.insert(flags.end(),
                     {"--accelerator-type", name.substr(resource::accelerator_prefix.size())});
      }
    } else if (name != "object_store_memory") {
      others[name] = amount;
    }
  }
  if (!others.empty()) flags.insert(flags.end(), {"--resources", json_text(others)});
  const auto given = instance.config.find("flags");
  if (given == instance.config.end()) return flags;
  const auto wrong =
      failure(ErrorCode::invalid_argument,
              fmt::format("launch {}: flags of node_config is not a list of texts", instance.name));
  if (!given->is_array()) return wrong;
  for (const auto& each : *given) {
    if (!each.is_string()) return wrong;
    flags.push_back(each.get<std::string>());
  }
  return flags;
}

}  // namespace mobula::internal::provider
