// The file of `mobula plan --types`: node types that can be launched, with limits, in YAML with the
// names of Ray's cluster files. docs/operations.md and tests/cli/node_types_test.cc show the keys.
// Thread: main.
// Not: cluster_name, provider, auth, head_node_type, file_mounts, setup_commands, and node_config,
// which are for launchers; a plan ignores them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "scheduler/planner/state.h"

namespace mobula::internal::cli {

struct NodeTypes {
  std::vector<planner::NodeType> types;  // in the order of the file
  planner::Limits limits;
  std::vector<planner::StandingRequest> standing;
};

// Fails with invalid_argument, which names `file`, the line, the key, and the rule.
Result<NodeTypes> parse_node_types(const std::string& text, const std::string& file);
// Fails with not_found or invalid_argument.
Result<NodeTypes> read_node_types(const std::string& file);

// Parses the labels of a node, a YAML mapping such as `zone: a`. Fails with invalid_argument.
Result<Labels> parse_node_labels(const std::string& text, const std::string& file);
Result<Labels> read_node_labels(const std::string& file);

}  // namespace mobula::internal::cli
