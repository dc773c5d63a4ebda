// Shape of the nodes in benchmarks of a head without sockets.
// Thread: any.
#pragma once

#include <string>
#include <utility>

#include "base/model/node_shape.h"

namespace mobula::internal {

// A node of 64 CPUs and `gpus` GPUs. Requests select it by `address`.
inline NodeShape gpu_node_shape(int gpus, const std::string& address = {}) {
  NodeShape shape;
  shape.resources.push_back({"CPU", {InstanceShape{Quantity::whole(64), "", {}, 0}}});
  ResourceShape devices{"GPU", {}};
  for (int i = 0; i < gpus; ++i) {
    devices.instances.push_back({Quantity::whole(1), std::to_string(i), {"H200"}, 80LL << 30});
  }
  shape.resources.push_back(std::move(devices));
  if (!address.empty())
    shape.resources.push_back({"node:" + address, {InstanceShape{Quantity::whole(1), "", {}, 0}}});
  return shape;
}

}  // namespace mobula::internal
