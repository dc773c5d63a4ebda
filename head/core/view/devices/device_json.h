// JSON of devices: the devices of nodes, the shares of slots, and the isolation that limits a
// holder to its share.
// Thread: any. Read-only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/model/node_shape.h"
#include "head/core/nodes/node_table.h"

namespace mobula::internal::head {

// Numbered instances by resource: [{"id", "total", "memory_bytes", "isolation": {…}}, …].
nlohmann::ordered_json devices_json(const NodeShape& shape);
nlohmann::ordered_json policy_json(const DevicePolicy& policy);

// Indices of the node's instances that a slot holds, by resource: [0, 2].
nlohmann::ordered_json instances_json(const Allocation& allocation, const NodeShape& of);
// Share that a slot holds of each accelerator, by resource: [{"index", "id", "amount",
// "memory_bytes", "isolation": {…}}, …].
nlohmann::ordered_json held_devices_json(const Allocation& allocation, const NodeShape& of);

// Isolation of a holder of whole devices of a node, or of a slot. Devices with equal isolation
// share one text ("promise only; MIG"). Empty without devices.
std::string isolation_text(const NodeShape& shape);
std::string isolation_text(const Allocation& allocation, const NodeShape& of);

// GPUs of all live nodes, grouped by the isolation of a holder of a whole GPU: [{"devices",
// "memory_bytes", "prevents", "detects", "reacts", "summary"}, …].
nlohmann::ordered_json gpus_json(const NodeTable& nodes);

}  // namespace mobula::internal::head
