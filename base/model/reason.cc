#include "base/model/reason.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mobula::internal {

namespace {

// "2 whole", "0.5 of one device".
std::string device_share(Quantity needed) {
  return needed.to_string() + (needed >= Quantity::whole(1) ? " whole" : " of one device");
}

std::string resource_of(const Reason& reason) {
  switch (reason.code) {
    case ReasonCode::resource_absent:
    case ReasonCode::resource_too_small:
    case ReasonCode::instance_too_small:
    case ReasonCode::over_quota: return reason.what;
    case ReasonCode::accelerator_type_absent: return "accelerator_type:" + reason.what;
    case ReasonCode::gpu_memory_too_small: return "gpu_memory";
    default: return {};
  }
}

}  // namespace

std::string missing_resource(const std::vector<NodeReason>& reasons) {
  std::vector<std::pair<std::string, std::size_t>> counts;  // in the order of their first node
  for (const NodeReason& each : reasons) {
    const std::string resource = resource_of(each.reason);
    if (resource.empty()) continue;
    const auto known =
        std::ranges::find(counts, resource, &std::pair<std::string, std::size_t>::first);
    if (known == counts.end()) {
      counts.emplace_back(resource, 1);
    } else {
      ++known->second;
    }
  }
  const auto most =
      std::ranges::max_element(counts, {}, &std::pair<std::string, std::size_t>::second);
  return most == counts.end() ? std::string() : most->first;
}

std::string_view to_string(ReasonCode code) {
  switch (code) {
    case ReasonCode::fits: return "Fits";
    case ReasonCode::node_dead: return "NodeDead";
    case ReasonCode::node_suspect: return "NodeSuspect";
    case ReasonCode::node_draining: return "NodeDraining";
    case ReasonCode::resource_absent: return "ResourceAbsent";
    case ReasonCode::resource_too_small: return "ResourceTooSmall";
    case ReasonCode::resource_busy: return "ResourceBusy";
    case ReasonCode::instance_too_small: return "InstanceTooSmall";
    case ReasonCode::accelerator_type_absent: return "AcceleratorTypeAbsent";
    case ReasonCode::accelerator_type_busy: return "AcceleratorTypeBusy";
    case ReasonCode::gpu_memory_too_small: return "GpuMemoryTooSmall";
    case ReasonCode::gpu_memory_busy: return "GpuMemoryBusy";
    case ReasonCode::label_mismatch: return "LabelMismatch";
    case ReasonCode::other_node_demanded: return "OtherNodeDemanded";
    case ReasonCode::program_cannot_start: return "ProgramCannotStart";
    case ReasonCode::executors_full: return "ExecutorsFull";
    case ReasonCode::reserved_for_older: return "ReservedForOlder";
    case ReasonCode::group_unplaced: return "GroupUnplaced";
    case ReasonCode::recovering: return "Recovering";
    case ReasonCode::oversubscribed: return "Oversubscribed";
    case ReasonCode::outside_group: return "OutsideGroup";
    case ReasonCode::over_quota: return "Quota";
    case ReasonCode::behind_priority: return "Priority";
    case ReasonCode::link_cut: return "LinkCut";
  }
  return "Unknown";
}

std::string to_string(const Reason& reason) {
  const auto needed = reason.needed.to_string();
  const auto available = reason.available.to_string();
  switch (reason.code) {
    case ReasonCode::fits: return "fits now";
    case ReasonCode::node_dead: return "the node is dead";
    case ReasonCode::node_suspect: return "the node is silent and suspected dead";
    case ReasonCode::node_draining: return "the node is draining";
    case ReasonCode::resource_absent:
      return fmt::format("{}: needs {}, the node has none", reason.what, needed);
    case ReasonCode::resource_too_small:
      return fmt::format("{}: needs {}, the node has {} in all", reason.what, needed, available);
    case ReasonCode::resource_busy:
      if (reason.detail.empty())
        return fmt::format("{}: needs {}, {} free", reason.what, needed, available);
      return fmt::format("{}: needs {}, {}", reason.what, device_share(reason.needed),
                         reason.detail);
    case ReasonCode::instance_too_small:
      return fmt::format("{}: needs {} on one device, the largest has {}", reason.what, needed,
                         available);
    case ReasonCode::accelerator_type_absent:
      return fmt::format("no {} here{}", reason.what,
                         reason.detail.empty() ? "" : " (has " + reason.detail + ")");
    case ReasonCode::accelerator_type_busy:
      return fmt::format("{}: needs {} of this type, {}", reason.what, device_share(reason.needed),
                         reason.detail);
    case ReasonCode::gpu_memory_too_small:
      return fmt::format("gpu_memory: needs {} bytes, the largest device has {}", needed,
                         available);
    case ReasonCode::gpu_memory_busy:
      return fmt::format("gpu_memory: needs {} bytes on one device, {} free", needed, available);
    case ReasonCode::label_mismatch: return fmt::format("label {}: {}", reason.what, reason.detail);
    case ReasonCode::other_node_demanded:
      return fmt::format("the request demands node {}", reason.what);
    case ReasonCode::program_cannot_start:
      return fmt::format("the program cannot start here: {}", reason.detail);
    case ReasonCode::executors_full:
      return fmt::format("executors: all {} slots are in use", available);
    case ReasonCode::reserved_for_older:
      return fmt::format("(Reserved) freed instances are withheld for an older request{}",
                         reason.detail.empty() ? "" : ": " + reason.detail);
    case ReasonCode::group_unplaced: return "its placement group is not placed yet";
    case ReasonCode::recovering: return "the head is recovering and waits for nodes to register";
    case ReasonCode::oversubscribed: return "CPU is over-committed by resumed executors";
    case ReasonCode::outside_group: return "no bundle of its placement group is here";
    case ReasonCode::over_quota:
      return fmt::format("(Quota) {}: needs {}, {} left of the job's quota of {}", reason.what,
                         needed, available, reason.detail);
    case ReasonCode::behind_priority: return fmt::format("(Priority) {}", reason.detail);
    case ReasonCode::link_cut:
      return fmt::format("the link to node {}, which has to reach this node, is cut", reason.what);
  }
  return "unknown reason";
}

}  // namespace mobula::internal
