// Identity of this host for shared memory, and the network addresses that other hosts can use.
// Thread: any. Reads the environment and the system.
#pragma once

#include <string>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "device/near_gpu.h"

namespace mobula::internal::exchange {

// Identity of this boot of the host and of the namespaces of shared memory, processes, and socket
// names. Containers of one machine therefore count as different hosts. Empty if the system does not
// report it; such a process shares memory with no other process.
std::string host_identity();

// Test setting: agents of one machine act as separate hosts, so that tests exercise the paths
// between hosts. Their processes then share neither host memory nor device memory.
inline constexpr const char* separate_hosts_variable = "MOBULA_TEST_SEPARATE_HOSTS";
// Suffix that separates the processes of a node from others under that setting; otherwise empty.
std::string separate_host(NodeId node);

inline constexpr const char* idle_variable = "MOBULA_TENSOR_IDLE_S";
// Idle time before tensor connections close: the value of the variable in seconds (0: never), or
// `otherwise` if it is not set.
Duration idle_of_environment(Duration otherwise);

// True if `near_interface_variable` allows another interface than the bound one.
bool may_choose_interface();
// All addresses of all interfaces, except addresses that other hosts cannot use without a scope id.
std::vector<InterfaceFacts> interfaces_here();
// `HOST:PORT` with the local address nearest to these devices (PCI ids as in `GpuDevices`); `bound`
// if no address is nearer.
std::string near_address(const std::string& bound, const MachineLocality& machine,
                         const std::vector<std::string>& bus_ids);

}  // namespace mobula::internal::exchange
