// Pods of the provider `kubernetes`: their bodies, and their states.
// Thread: any; pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "deploy/fleet/provider_contract.h"

namespace mobula::internal::provider {

inline constexpr const char* pod_cluster_label = "mobula.io/cluster";

struct PodOptions {
  std::string image{};
  std::string cluster_id{};
  std::string head{};
  std::string gpu_resource = "nvidia.com/gpu";
  std::int64_t grace_s = 120;                                       // between SIGTERM and SIGKILL
  nlohmann::ordered_json owner = nullptr;                           // an owner reference
  nlohmann::ordered_json patch = nlohmann::ordered_json::object();  // merged into each pod
};

// The pod of an instance: like those of deploy/kubernetes/agents.yaml, with requests and limits of
// the node type, then merged (RFC 7396) with `patch` and with `pod` of the type's `config`.
// Errors: invalid_argument.
Result<nlohmann::ordered_json> pod_of(const fleet::InstanceSpec& instance,
                                      const PodOptions& options);
// The secret with the ticket, which Kubernetes removes with the pod.
nlohmann::ordered_json ticket_secret_of(const fleet::InstanceSpec& instance,
                                        const std::string& pod_uid);

// The row of a list for this pod. Errors: corrupt for a pod without name or uid.
Result<fleet::InstanceReply> row_of_pod(const nlohmann::ordered_json& pod);

}  // namespace mobula::internal::provider
