// The reason that a request waits or was rejected, as data: a code for decisions, and the parts of
// a message. `to_string` formats it.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/id.h"
#include "base/quantity.h"

namespace mobula::internal {

// The first rule that rejected a node. Part of messages: append only.
enum class ReasonCode : std::uint8_t {
  fits = 0,
  node_dead = 1,
  node_suspect = 2,
  node_draining = 3,
  resource_absent = 4,     // the node has none of it
  resource_too_small = 5,  // the total is below the request, which never fits on the node
  resource_busy = 6,       // the total suffices, the free amount does not
  instance_too_small = 7,  // no single device can ever hold the share
  accelerator_type_absent = 8,
  accelerator_type_busy = 9,
  gpu_memory_too_small = 10,
  gpu_memory_busy = 11,
  label_mismatch = 12,
  other_node_demanded = 13,  // hard affinity to another node
  program_cannot_start = 14,
  executors_full = 15,
  reserved_for_older = 16,
  group_unplaced = 17,
  recovering = 18,       // the head has just started and waits for nodes
  oversubscribed = 19,   // a continued executor uses CPU that other work received
  outside_group = 20,    // no bundle of the placement group is on this node
  over_quota = 21,       // the job holds its quota of the resource
  behind_priority = 22,  // requests of higher priority wait
  link_cut = 23,         // no contact between the node and a node that must reach it
};

struct Reason {
  ReasonCode code = ReasonCode::fits;
  std::string what;  // resource, label, type, or program
  Quantity needed;
  Quantity available;  // free or total amount, by the code
  std::string detail;
  MOBULA_FIELDS(code, what, needed, available, detail);
  friend bool operator==(const Reason&, const Reason&) = default;
};

struct NodeReason {
  NodeId node;
  Reason reason;
  MOBULA_FIELDS(node, reason);
  friend bool operator==(const NodeReason&, const NodeReason&) = default;
};

// Resource that most of these nodes, or the job's quota, can never provide; the first one if
// several are equally frequent. `GPU`, `gpu_memory`, `accelerator_type:H100`, or a custom name.
// Empty if no resource is the reason.
std::string missing_resource(const std::vector<NodeReason>& reasons);

std::string_view to_string(ReasonCode code);
// "CPU: needs 2, 1 free", "GPU: needs 2 whole, free 1.5 on 2 devices: 1, 0.5".
std::string to_string(const Reason& reason);

}  // namespace mobula::internal
