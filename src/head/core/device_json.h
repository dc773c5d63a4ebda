// Devices as JSON, for state_json.cc: what nodes have, what slots hold of it, and what keeps those who
// hold a part of one to it. Read only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "head/core/node_table.h"
#include "model/node_shape.h"

namespace mobula::internal::head {

// By resource, the numbered instances: [{"id", "total", "memory_bytes", "isolation": {…}}, …].
nlohmann::ordered_json devices_json(const NodeShape& shape);
nlohmann::ordered_json policy_json(const DevicePolicy& policy);

// By resource, which of the node's instances a slot holds: [0, 2].
nlohmann::ordered_json instances_json(const Allocation& allocation, const NodeShape& of);
// By resource, what it holds of each accelerator: [{"index", "id", "amount", "memory_bytes",
// "isolation": {…}}, …].
nlohmann::ordered_json held_devices_json(const Allocation& allocation, const NodeShape& of);

// What whoever holds a whole device of a node, or what a slot holds, has: one text for all devices that
// have the same ("promise only; MIG"), empty without devices.
std::string isolation_text(const NodeShape& shape);
std::string isolation_text(const Allocation& allocation, const NodeShape& of);

// The GPUs of all nodes that live, by what isolates whoever holds all of one: [{"devices",
// "memory_bytes", "prevents", "detects", "reacts", "summary"}, …].
nlohmann::ordered_json gpus_json(const NodeTable& nodes);

}  // namespace mobula::internal::head
