// A head core with a driver's job and one node, which has a label.
// Thread: owner.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "head/core/small_cluster.h"

namespace mobula::internal::head {

class LabelledCluster : public testing::Test {
 protected:
  LabelledCluster() {
    agent.shape.labels = {{"zone", "a"}};
    cluster.driver_starts_job(agent, 1);
  }

  nlohmann::json list(const std::string& kind) {
    return nlohmann::json::parse(cluster.tool("list", kind).json);
  }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, labelled());
  ProcessId driver = SmallCluster::driver(1);

 private:
  static NodeShape labelled() {
    auto shape = SmallCluster::shape(2, 1);
    shape.labels = {{"zone", "a"}};
    return shape;
  }
};

}  // namespace mobula::internal::head
