// What processes that can share memory have in common. Any thread; asks the system.
#pragma once

#include <string>

#include "base/id.h"

namespace mobula::internal::exchange {

// This boot of this machine, and the namespaces in which files in memory and processes are known. Empty
// where the system does not say: such a process shares with nobody.
std::string machine_identity();

// Set for agents of one machine that are to take each other for machines of their own, to try what goes between
// machines: neither memory of the host nor of a device is then shared between their processes.
inline constexpr const char* separate_hosts_variable = "MOBULA_TEST_SEPARATE_HOSTS";
// What then tells a node's processes from others; else empty.
std::string separate_host(NodeId node);

}  // namespace mobula::internal::exchange
