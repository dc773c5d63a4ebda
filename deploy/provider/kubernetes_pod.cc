#include "deploy/provider/kubernetes_pod.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <utility>

#include "deploy/provider/agent_flags.h"

namespace mobula::internal::provider {
namespace {

using fleet::InstanceReply;
using fleet::InstanceSpec;
using fleet::ProviderState;
using Json = nlohmann::ordered_json;

constexpr const char* state_path = "/var/lib/mobula";
constexpr const char* instance_of_pod = "mobula.io/instance";
constexpr const char* type_of_pod = "mobula.io/node-group";

std::string text_at(const Json& json, const Json::json_pointer& path) {
  const bool has = json.is_structured() && json.contains(path);
  return has && json.at(path).is_string() ? json.at(path).get<std::string>() : std::string();
}

std::string quantity_text(double amount) {
  if (amount == std::floor(amount)) return fmt::format("{}", static_cast<std::int64_t>(amount));
  return fmt::format("{}m", static_cast<std::int64_t>(std::ceil(amount * 1000)));
}

Json limits_of(const InstanceSpec& instance, const PodOptions& options) {
  Json limits = Json::object();
  for (const auto& [name, amount] : instance.resources) {
    if (amount <= 0) continue;
    if (name == "CPU") limits["cpu"] = quantity_text(amount);
    if (name == "memory") limits["memory"] = quantity_text(std::ceil(amount));
    if (name == "GPU") limits[options.gpu_resource] = quantity_text(std::ceil(amount));
  }
  return limits;
}

Json confined() {
  return {{"allowPrivilegeEscalation", false},
          {"readOnlyRootFilesystem", true},
          {"capabilities", {{"drop", Json::array({"ALL"})}}}};
}

Json container_of(const InstanceSpec& instance, const PodOptions& options,
                  const std::vector<std::string>& flags) {
  Json arguments = Json::array({"start", "--block"});
  for (const auto& each : flags) arguments.push_back(each);
  for (const char* each : {"--bind", "0.0.0.0", "--advertise", "$(POD_IP)"})
    arguments.push_back(each);
  const auto limits = limits_of(instance, options);
  Json container = {
      {"name", "agent"},
      {"image", options.image},
      {"args", arguments},
      {"env", Json::array({Json{{"name", "POD_IP"},
                                {"valueFrom", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}}},
                           Json{{"name", "MOBULA_STATE_DIR"}, {"value", state_path}}})},
      {"securityContext", confined()},
      {"volumeMounts", Json::array({Json{{"name", "tmp"}, {"mountPath", "/tmp"}},
                                    Json{{"name", "node"}, {"mountPath", state_path}},
                                    Json{{"name", "shm"}, {"mountPath", "/dev/shm"}}})}};
  if (!limits.empty()) container["resources"] = {{"requests", limits}, {"limits", limits}};
  return container;
}

// The agent rejects a ticket that its group can read, as files of a secret are.
Json ticket_container(const PodOptions& options) {
  return {{"name", "ticket"},
          {"image", options.image},
          {"command", Json::array({"/usr/bin/install", "-m", "0600", "/etc/mobula/ticket",
                                   std::string(state_path) + "/ticket"})},
          {"securityContext", confined()},
          {"volumeMounts",
           Json::array({Json{{"name", "ticket"}, {"mountPath", "/etc/mobula"}, {"readOnly", true}},
                        Json{{"name", "node"}, {"mountPath", state_path}}})}};
}

Json labels_of(const InstanceSpec& instance, const PodOptions& options) {
  return {{"app.kubernetes.io/name", "mobula"},
          {"app.kubernetes.io/part-of", "mobula"},
          {"app.kubernetes.io/component", "instance"},
          {pod_cluster_label, options.cluster_id},
          {instance_of_pod, instance.name},
          {type_of_pod, instance.type}};
}

// Seconds since 1970 of "2026-11-27T00:00:00Z".
std::optional<std::int64_t> moment_of_text(const std::string& text) {
  std::tm parts{};
  if (std::sscanf(text.c_str(), "%d-%d-%dT%d:%d:%d", &parts.tm_year, &parts.tm_mon, &parts.tm_mday,
                  &parts.tm_hour, &parts.tm_min, &parts.tm_sec) != 6)
    return std::nullopt;
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  return static_cast<std::int64_t>(::timegm(&parts));
}

// The text of the condition PodScheduled=False, or of a container that cannot start.
std::string why_pending(const Json& status) {
  const auto conditions = status.value("conditions", Json::array());
  for (const auto& each : conditions) {
    if (text_at(each, Json::json_pointer("/type")) == "PodScheduled" &&
        text_at(each, Json::json_pointer("/status")) == "False")
      return text_at(each, Json::json_pointer("/reason")) + ": " +
             text_at(each, Json::json_pointer("/message"));
  }
  for (const char* kind : {"initContainerStatuses", "containerStatuses"}) {
    const auto containers = status.value(kind, Json::array());
    for (const auto& each : containers) {
      const auto reason = text_at(each, Json::json_pointer("/state/waiting/reason"));
      if (reason.empty() || reason == "PodInitializing" || reason == "ContainerCreating") continue;
      const auto message = text_at(each, Json::json_pointer("/state/waiting/message"));
      return message.empty() ? reason : reason + ": " + message;
    }
  }
  return {};
}

bool is_unscheduled(const Json& status) {
  const auto conditions = status.value("conditions", Json::array());
  if (conditions.empty()) return true;
  for (const auto& each : conditions) {
    if (text_at(each, Json::json_pointer("/type")) == "PodScheduled")
      return text_at(each, Json::json_pointer("/status")) != "True";
  }
  return true;
}

std::string why_failed(const Json& status) {
  std::string text = text_at(status, Json::json_pointer("/reason"));
  const auto message = text_at(status, Json::json_pointer("/message"));
  if (!message.empty()) text += (text.empty() ? "" : ": ") + message;
  const auto containers = status.value("containerStatuses", Json::array());
  for (const auto& each : containers) {
    const Json::json_pointer code("/state/terminated/exitCode");
    if (each.is_object() && each.contains(code) && each.at(code).is_number_integer() &&
        text.empty())
      text = fmt::format("the agent exited with {}", each.at(code).get<std::int64_t>());
  }
  return text.empty() ? "the agent exited" : text;
}

}  // namespace

Result<Json> pod_of(const InstanceSpec& instance, const PodOptions& options) {
  const auto flags =
      agent_flags(instance, options.head, std::string(state_path) + "/ticket", false);
  if (!flags) return flags.error();
  Json spec = {
      {"restartPolicy", "Never"},
      {"automountServiceAccountToken", false},
      {"enableServiceLinks", false},
      {"terminationGracePeriodSeconds", options.grace_s},
      {"securityContext",
       {{"runAsNonRoot", true},
        {"runAsUser", 10001},
        {"runAsGroup", 10001},
        {"fsGroup", 10001},
        {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
      {"containers", Json::array({container_of(instance, options, *flags)})},
      {"volumes", Json::array({Json{{"name", "node"}, {"emptyDir", Json::object()}},
                               Json{{"name", "tmp"}, {"emptyDir", Json::object()}},
                               Json{{"name", "shm"},
                                    {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", "1Gi"}}}}})}};
  if (!instance.ticket.empty()) {
    spec["initContainers"] = Json::array({ticket_container(options)});
    spec["volumes"].push_back(
        {{"name", "ticket"}, {"secret", {{"secretName", instance.name}, {"defaultMode", 0400}}}});
  }
  Json metadata = {{"name", instance.name}, {"labels", labels_of(instance, options)}};
  if (!options.owner.is_null()) metadata["ownerReferences"] = Json::array({options.owner});
  Json pod = {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", metadata}, {"spec", spec}};
  pod.merge_patch(options.patch);
  const auto own = instance.config.find("pod");
  if (own != instance.config.end()) {
    if (!own->is_object()) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("launch {}: pod of node_config is not an object", instance.name));
    }
    pod.merge_patch(*own);
  }
  // The patches cannot change the identity of the instance.
  pod["metadata"]["name"] = instance.name;
  const auto labels = labels_of(instance, options);
  for (const auto& [name, value] : labels.items()) pod["metadata"]["labels"][name] = value;
  return pod;
}

Json ticket_secret_of(const InstanceSpec& instance, const std::string& pod_uid) {
  const Json owner = {
      {"apiVersion", "v1"}, {"kind", "Pod"}, {"name", instance.name}, {"uid", pod_uid}};
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"metadata",
           {{"name", instance.name},
            {"labels", {{"app.kubernetes.io/part-of", "mobula"}}},
            {"ownerReferences", Json::array({owner})}}},
          {"type", "Opaque"},
          {"stringData", {{"ticket", instance.ticket + "\n"}}}};
}

Result<InstanceReply> row_of_pod(const Json& pod) {
  InstanceReply row{.name = text_at(pod, Json::json_pointer("/metadata/name")),
                    .ref = text_at(pod, Json::json_pointer("/metadata/uid"))};
  if (row.name.empty() || row.ref.empty())
    return failure(ErrorCode::corrupt, "list pods: a pod has no name or no uid");
  row.type = text_at(pod, Json::json_pointer("/metadata/labels/mobula.io~1node-group"));
  const auto status = pod.value("status", Json::object());
  const auto phase = text_at(status, Json::json_pointer("/phase"));
  const Json::json_pointer limit("/spec/activeDeadlineSeconds");
  const auto begin = moment_of_text(text_at(status, Json::json_pointer("/startTime")));
  if (begin && pod.contains(limit) && pod.at(limit).is_number_integer())
    row.ends_at = *begin + pod.at(limit).get<std::int64_t>();
  if (!text_at(pod, Json::json_pointer("/metadata/deletionTimestamp")).empty()) {
    row.state = ProviderState::ending;
  } else if (phase == "Running") {
    row.state = ProviderState::running;
  } else if (phase == "Succeeded" || phase == "Failed") {
    row.state = ProviderState::failed;
    row.reason = why_failed(status);
  } else {
    row.state = is_unscheduled(status) ? ProviderState::pending : ProviderState::starting;
    row.reason = why_pending(status);
  }
  return row;
}

}  // namespace mobula::internal::provider
