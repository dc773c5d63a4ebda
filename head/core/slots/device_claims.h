// Holder of each physical device. Two agents that see the same device, for example on one machine
// without separate visible lists, both offer it. The device is allocated on the first node only, so
// that no two slots get it.
// Thread: owner (one NodeTable).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/model/node_shape.h"

namespace mobula::internal::head {

// A device that a node offers although another node holds it.
struct RefusedDevice {
  std::string resource;
  std::size_t index = 0;  // index among the node's instances of the resource
  InstanceShape device;   // device as offered
  NodeId holder;

  friend bool operator==(const RefusedDevice&, const RefusedDevice&) = default;
};
// Returns "GPU 0 (GPU-8f…) is offered by node … already: …".
std::string describe(const RefusedDevice& device);

class DeviceClaims {
 public:
  // Claims every device of `shape` that has a uuid. Devices that another node holds are emptied in
  // `shape`, so that they cannot be allocated, and returned. Indices do not change.
  std::vector<RefusedDevice> claim(NodeId node, NodeShape& shape);
  // Claims the devices of `refused` that are free now: restores them in `shape` and removes them
  // from `refused`. Returns whether any was claimed.
  bool claim_again(NodeId node, NodeShape& shape, std::vector<RefusedDevice>& refused);
  // Releases the devices of a node that left or reports its devices again. Returns whether it held
  // any.
  bool release(NodeId node);

 private:
  std::map<std::string, NodeId> holders_;  // by uuid
};

}  // namespace mobula::internal::head
