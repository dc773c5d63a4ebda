// Passes the leased GPUs of an assignment to the tensor exchange, and settings to device libraries
// through the environment, before user code runs.
// Thread: main thread, before other threads start.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "device/gpu/gpu_devices.h"
#include "protocol/messages/agent_to_process.h"

namespace mobula::internal::executor {

// Sets NCCL variables that the user has not set: no RAS listener, several ranks on one GPU, the
// interface that the node is bound to, and a host id if the node has its own.
void set_library_environment(const PrepareExecutor& prepare, const AssignExecutor& assignment);
// Pinned staging memory per GPU and direction in MiB: at least 12, by default 32.
inline constexpr const char* staging_variable = "MOBULA_STAGING_MIB";
// Null without a lease.
std::shared_ptr<exchange::GpuDevices> gpus_of(const AssignExecutor& assignment,
                                              std::function<void(const std::string&)> lost);

}  // namespace mobula::internal::executor
