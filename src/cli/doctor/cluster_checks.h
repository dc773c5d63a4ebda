// Whether the cluster can be reached from here, speaks this program's protocol, knows this key and agrees on the
// time, and whether its nodes can. Asks the head, and tries ports: a connection that is closed at once. Main thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/time.h"
#include "cli/command_line.h"
#include "cli/doctor/finding.h"

namespace mobula::internal::cli::doctor {

struct ClusterLook {
  Findings findings{};
  bool reached = false;  // a head has answered
};

ClusterLook check_cluster(const CommandLine& line);

enum class PortAnswer {
  silent,   // nothing came back in time
  open,
  refused,  // the machine is there, and says that nobody listens
  unknown,  // its name leads nowhere
};
struct PortSeen {
  std::string what;     // "head", "agent of node 0123abcd (host)"
  std::string address;  // HOST:PORT
  PortAnswer answer = PortAnswer::silent;
  std::string why{};  // where it is unknown
};
// Side by side, each at most `limit`.
std::vector<PortSeen> try_ports(std::vector<PortSeen> ports, Duration limit);
Findings check_ports(const std::string& name, const std::vector<PortSeen>& seen);

// The head's clock read between two looks at this machine's, all in milliseconds since 1970.
Finding check_clock(std::int64_t before_ms, std::int64_t head_ms, std::int64_t after_ms);

// Nodes of `usage`: wall clocks of agents that differ from the clock of the head.
Finding check_node_clocks(const nlohmann::json& nodes);

// Items of `list nodes`: what differs between nodes that are to work together, and addresses that only their own
// machine can use. `own_host` is this machine's name.
Findings check_nodes(const nlohmann::json& items, const std::string& own_host);

}  // namespace mobula::internal::cli::doctor
