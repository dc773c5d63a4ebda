// Which node has which physical device. Two agents that see the same device (two of one machine,
// without a visible list each) both offer it; it is booked for the first alone, so that no two slots
// get it. Owned by one NodeTable; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/id.h"
#include "model/node_shape.h"

namespace mobula::internal::head {

// A device that a node offers and another node has.
struct RefusedDevice {
  std::string resource;
  std::size_t index = 0;  // among the node's instances of the resource
  InstanceShape device;   // as offered
  NodeId holder;

  friend bool operator==(const RefusedDevice&, const RefusedDevice&) = default;
};
// "GPU 0 (GPU-8f…) is offered by node … already: …", for people.
std::string describe(const RefusedDevice& device);

class DeviceClaims {
 public:
  // Claims every device of `shape` that has a uuid. Those that another node has are emptied in
  // `shape`, so that nothing is booked on them, and returned. Indices stay as they are.
  std::vector<RefusedDevice> claim(NodeId node, NodeShape& shape);
  // Claims what of `refused` is free by now: fills it into `shape` again and removes it there.
  // Whether there was any.
  bool claim_again(NodeId node, NodeShape& shape, std::vector<RefusedDevice>& refused);
  // The node is gone, or about to state its devices anew. Whether it had any.
  bool release(NodeId node);

 private:
  std::map<std::string, NodeId> holders_;  // by uuid
};

}  // namespace mobula::internal::head
