// A node of the cluster, as `nodes()` returns it.
// Thread: owner (plain value).
#pragma once

#include <map>
#include <string>

namespace mobula {

// The state of one node.
struct Node {
  std::string node_id = {};                        // 32 hexadecimal digits
  bool alive = false;                              // whether the node takes part in the cluster
  std::string address = {};                        // HOST:PORT of its worker agent
  std::map<std::string, double> resources = {};    // total amounts by resource name
  std::map<std::string, std::string> labels = {};  // labels by name
};

}  // namespace mobula
