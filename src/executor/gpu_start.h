// What an executor that was given GPUs is told by its assignment, and what libraries of devices are told by the
// environment, before any user code runs. For the main thread, before there are others.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "exchange/gpu_devices.h"
#include "protocol/agent_to_process.h"

namespace mobula::internal::executor {

// NCCL's settings, as far as the user has not set them: no service of its own that listens, the interface that
// the node is bound to, and its host's name where that is not the machine's.
void set_library_environment(const PrepareExecutor& prepare, const AssignExecutor& assignment);
// How much pinned memory a process takes for each of its GPUs, in MiB for each direction: at least 12, else 32.
inline constexpr const char* staging_variable = "MOBULA_STAGING_MIB";
// Null without a lease.
std::shared_ptr<exchange::GpuDevices> gpus_of(const AssignExecutor& assignment,
                                              std::function<void(const std::string&)> lost);

}  // namespace mobula::internal::executor
