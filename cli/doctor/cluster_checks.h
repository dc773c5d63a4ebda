// Checks of the path to the cluster: reachability, protocol, key, clock, and the ports of its
// nodes. Queries the head and opens connections that are closed immediately.
// Thread: main.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/time.h"
#include "cli/command_line.h"
#include "cli/doctor/finding.h"

namespace mobula::internal::cli::doctor {

struct ClusterSnapshot {
  Findings findings{};
  bool reached = false;  // a head has answered
};

ClusterSnapshot check_cluster(const CommandLine& line);

enum class PortAnswer {
  silent,  // no reply in time
  open,
  refused,  // the machine rejects the connection
  unknown,  // the name cannot be resolved
};
struct PortSeen {
  std::string what;     // "head", "agent of node 0123abcd (host)"
  std::string address;  // HOST:PORT
  PortAnswer answer = PortAnswer::silent;
  std::string why{};  // if it is unknown
};
// Tries all ports at the same time, each for at most `limit`.
std::vector<PortSeen> try_ports(std::vector<PortSeen> ports, Duration limit);
Findings check_ports(const std::string& name, const std::vector<PortSeen>& seen);

// Compares the head's clock with two readings of this machine's clock, all in milliseconds since
// 1970.
Finding check_clock(std::int64_t before_ms, std::int64_t head_ms, std::int64_t after_ms);

// Compares the wall clocks of agents, from nodes of `usage`, with the clock of the head.
Finding check_node_clocks(const nlohmann::json& nodes);

// Checks items of `list nodes` for differences between nodes that must match, and for addresses
// that only one machine can use. `own_host` is this machine's name.
Findings check_nodes(const nlohmann::json& items, const std::string& own_host);

}  // namespace mobula::internal::cli::doctor
