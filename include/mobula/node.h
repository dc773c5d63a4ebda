// A node of the cluster as programs see it. Values.
#pragma once

#include <map>
#include <string>

namespace mobula {

struct Node {
  std::string node_id = {};
  bool alive = false;
  std::string address = {};
  std::map<std::string, double> resources = {};
  std::map<std::string, std::string> labels = {};
};

}  // namespace mobula
