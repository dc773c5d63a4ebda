// The file of `mobula plan` and `mobula autoscale`: node types to launch, with limits and
// the provider, in YAML with the names of Ray's cluster files. docs/operations.md and
// tests/deploy/fleet/node_types_test.cc show the keys.
// Thread: any.
// Not: cluster_name, auth, head_node_type, file_mounts, and setup_commands, which are for other
// launchers and ignored. The provider interprets `provider` and `node_config`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "scheduler/planner/state.h"

namespace mobula::internal::fleet {

struct NodeTypes {
  std::vector<planner::NodeType> types;  // in the order of the file
  planner::Limits limits;
  std::vector<planner::StandingRequest> standing;
  std::string provider{};                        // JSON object of `provider`; empty: not given
  std::map<std::string, std::string> configs{};  // JSON of `node_config`, by type
  Duration launch_timeout = std::chrono::minutes(10);  // from the launch to the join of the node
  Duration absent_timeout = 30s;                       // absence of a node until its instance ends
  Duration drain_timeout = 120s;                       // drain of an idle node
};

// Fails with invalid_argument, which names `file`, the line, the key, and the rule.
Result<NodeTypes> parse_node_types(const std::string& text, const std::string& file);
// Fails with not_found or invalid_argument.
Result<NodeTypes> read_node_types(const std::string& file);

// Parses the labels of a node, a YAML mapping such as `zone: a`. Fails with invalid_argument.
Result<Labels> parse_node_labels(const std::string& text, const std::string& file);
Result<Labels> read_node_labels(const std::string& file);

}  // namespace mobula::internal::fleet
