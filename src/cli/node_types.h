// The file of `mobula plan --types`: the types of nodes that could be launched, with their limits,
// in YAML with the names that Ray's cluster files have. Main thread.
//
//   max_workers: 20                  # of all types together
//   upscaling_speed: 1.0             # at once, as a part of those of a type that run; always 5
//   idle_timeout_minutes: 5
//   request_resources: [{CPU: 4}]    # room that is to be there whether or not anything runs
//   available_node_types:
//     gpu:
//       resources: {CPU: 16, GPU: 4, memory: 64GiB, fpga: {total: 2, unit: true}}
//       accelerator_type: H100       # of its devices
//       gpu_memory: 80GiB            # of each
//       gpu_context_memory: 640MiB   # of it, for the context of each process; this if not given
//       labels: {zone: a}
//       min_workers: 0
//       max_workers: 10
//
// cluster_name, provider, auth, head_node_type, file_mounts and setup_commands are for what launches,
// as are node_config and setup_commands of a type; a plan passes over them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "planner/state.h"

namespace mobula::internal::cli {

struct NodeTypes {
  std::vector<planner::NodeType> types;  // in the order of the file
  planner::Limits limits;
  std::vector<planner::StandingRequest> standing;
};

// Fails with invalid_argument, naming `file`, the line, the key and the rule.
Result<NodeTypes> parse_node_types(const std::string& text, const std::string& file);
// Fails with not_found or invalid_argument.
Result<NodeTypes> read_node_types(const std::string& file);

// The labels of a node, a YAML mapping such as `zone: a`. Fails likewise.
Result<Labels> parse_node_labels(const std::string& text, const std::string& file);
Result<Labels> read_node_labels(const std::string& file);

}  // namespace mobula::internal::cli
