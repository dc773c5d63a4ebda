// What processes that can share memory have in common. Any thread; asks the system.
#pragma once

#include <string>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "device/near_gpu.h"

namespace mobula::internal::exchange {

// This boot of this machine, and the namespaces in which files in memory, processes and the names of sockets are
// known: containers of one machine are machines of their own. Empty where the system does not say: such a process
// shares with nobody.
std::string machine_identity();

// Set for agents of one machine that are to take each other for machines of their own, to try what goes between
// machines: neither memory of the host nor of a device is then shared between their processes.
inline constexpr const char* separate_hosts_variable = "MOBULA_TEST_SEPARATE_HOSTS";
// What then tells a node's processes from others; else empty.
std::string separate_host(NodeId node);

inline constexpr const char* idle_variable = "MOBULA_TENSOR_IDLE_S";
// After how long connections that carry nothing are closed: what it says, in seconds, 0: never; else `otherwise`.
Duration idle_of_environment(Duration otherwise);

// Whether near_interface_variable says so.
bool may_choose_interface();
// Every address of every interface, but those that mean nothing elsewhere without the interface's name.
std::vector<InterfaceFacts> interfaces_here();
// HOST:PORT with the host that is near these devices, as GpuDevices knows them, in place of `bound`; else `bound`.
std::string near_address(const std::string& bound, const MachineLocality& machine, const std::vector<std::string>& bus_ids);

}  // namespace mobula::internal::exchange
