// What an executor that was given GPUs is told by its assignment, and what libraries of devices are told by the
// environment, before any user code runs. For the main thread, before there are others.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "exchange/gpu_devices.h"
#include "protocol/agent_to_process.h"

namespace mobula::internal::executor {

// Set for agents of one machine that are to take each other for machines of their own, to try what goes between
// machines: shared memory and device memory of one are then not reached from the other.
inline constexpr const char* separate_hosts_variable = "MOBULA_TEST_SEPARATE_HOSTS";
// What tells the hosts apart; empty where they are not.
std::string separate_host(const AssignExecutor& assignment);

// NCCL's settings, as far as the user has not set them: no service of its own that listens, the interface that
// the node is bound to.
void set_library_environment(const PrepareExecutor& prepare, const AssignExecutor& assignment);
// What MOBULA_TRANSPORT_PLUGINS says.
std::string plugins_of_environment();

// Null without a lease.
std::shared_ptr<exchange::GpuDevices> gpus_of(const AssignExecutor& assignment,
                                              std::function<void(const std::string&)> lost);

}  // namespace mobula::internal::executor
