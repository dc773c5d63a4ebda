#include "client/api/rules.h"

#include <cctype>

#include <mobula/errors.h>

#include "base/id.h"
#include "base/model/accelerator_vendor.h"
#include "base/model/jobs/job_terms.h"
#include "base/model/resources.h"
#include "base/quantity.h"

namespace mobula::internal::client {

namespace {

std::string lower(std::string_view text) {
  std::string folded(text);
  for (char& c : folded) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return folded;
}

std::string transport_name(Transport transport) {
  switch (transport) {
    case Transport::automatic: return "automatic";
    case Transport::shm: return "shm";
    case Transport::tcp: return "tcp";
    case Transport::gloo: return "gloo";
    case Transport::ucx: return "ucx";
    case Transport::cuda_ipc: return "cuda_ipc";
    case Transport::nccl: return "nccl";
    case Transport::object_store: return "object_store";
    case Transport::nixl: return "nixl";
  }
  return "one that does not exist";
}

}  // namespace

void refuse(const std::string& field, const std::string& rule, const std::string& given) {
  auto record = std::make_shared<detail::ErrorRecord>();
  record->kind = detail::ErrorKind::invalid_request;
  record->field = field;
  record->rule = rule;
  record->message = field + ": " + rule + "; given: " + given;
  throw InvalidRequestError(std::shared_ptr<const detail::ErrorRecord>(std::move(record)));
}

void keep(const Breach& breach) {
  if (breach) refuse(breach->field, breach->rule, breach->given);
}

void check_text(std::string_view field, std::string_view text) {
  keep(internal::check_text(field, text));
}

void check_at_least(std::string_view field, std::int64_t value, std::int64_t least) {
  if (value < least) {
    refuse(std::string(field), "at least " + std::to_string(least), std::to_string(value));
  }
}

void check_not_negative(const std::string& field, std::int64_t value) {
  if (value < 0) refuse(field, "an amount is not negative", std::to_string(value));
}

void check_bytes(const std::string& field, std::int64_t value) {
  keep(internal::check_bytes(field, value));
}

void check_priority(const std::string& field, int priority) {
  if (internal::check_priority(field, priority)) return;
  refuse(field,
         "from " + std::to_string(least_priority) + " to " + std::to_string(greatest_priority),
         std::to_string(priority));
}

std::map<std::string, std::int64_t> quota_units(const Resources& quota) {
  std::map<std::string, std::int64_t> units;
  for (const auto& [name, most] : quota) {
    if (name.empty()) refuse("job_quota", "a resource has a name", "an empty one");
    check_text("job_quota", name);
    const std::string folded = lower(name);
    const auto booked = std::string(folded == "cpu"      ? resource::cpu
                                    : folded == "gpu"    ? resource::gpu
                                    : folded == "memory" ? resource::memory
                                                         : name);
    if (!units.emplace(booked, units_of("job_quota." + name, most)).second) {
      refuse("job_quota", "a resource is named once", name + " and the same in another case");
    }
  }
  if (units.size() > most_quota_entries) {
    refuse("job_quota", "at most " + std::to_string(most_quota_entries) + " resources",
           std::to_string(units.size()));
  }
  return units;
}

void check_environment(const Environment& env) {
  keep(internal::check_environment(env));
  for (const auto& [name, value] : env) {
    if (is_accelerator_variable(name)) {
      refuse("env",
             "variables that choose devices are set by the runtime to the devices that the task "
             "was given; ask with num_gpus or the vendor's resource",
             name);
    }
  }
}

void check_scheduling(const Scheduling& scheduling) {
  const auto* affinity = std::get_if<NodeAffinity>(&scheduling);
  if (affinity != nullptr && affinity->node_id.empty()) {
    refuse("scheduling", "NodeAffinity names a node", "an empty node_id");
  }
  if (affinity != nullptr && !NodeId::from_hex(affinity->node_id)) {
    refuse("scheduling",
           "NodeAffinity names a node by its id of 32 hexadecimal digits (nodes() has them)",
           "\"" + affinity->node_id + "\"");
  }
}

void check_placement(const std::optional<Placement>& placement) {
  if (!placement) return;
  check_at_least("placement.bundle_index", placement->bundle_index, -1);
  if (placement->group.empty() &&
      (placement->bundle_index != -1 || placement->capture_child_tasks)) {
    refuse("placement", "a bundle and capturing need a group", "a placement without a group");
  }
  const auto bundles = static_cast<int>(placement->group.bundles().size());
  if (!placement->group.empty() && placement->bundle_index >= bundles) {
    refuse("placement.bundle_index",
           "below the number of bundles, which is " + std::to_string(bundles),
           std::to_string(placement->bundle_index));
  }
}

void check_transport(Transport transport) {
  if (transport >= Transport::automatic && transport <= Transport::nixl) return;
  refuse("tensor_transport", "one of mobula::Transport", transport_name(transport));
}

void check_policy(TensorPolicy policy) {
  if (policy >= TensorPolicy::freeze && policy <= TensorPolicy::alias) return;
  refuse("tensor_policy", "one of mobula::TensorPolicy", std::to_string(static_cast<int>(policy)));
}

void check_reading(Transport transport, const std::optional<Device>& device) {
  if (transport != Transport::automatic) check_transport(transport);
  if (!device) return;
  check_not_negative("device.index", device->index);
}

std::int64_t units_of(const std::string& field, double amount) {
  std::int64_t units = 0;
  keep(read_units(field, amount, units));
  return units;
}

std::int64_t bytes_of(const std::string& field, double amount) {
  std::int64_t bytes = 0;
  keep(read_bytes(field, amount, bytes));
  return bytes;
}

NamedResources named_resources(const Resources& resources, AmountKind kind) {
  NamedResources named;
  keep(read_named({resources.begin(), resources.end()}, kind, named));
  return named;
}

}  // namespace mobula::internal::client
