// Checks that NVIDIA's driver and its libraries match. Opens NVML, the CUDA driver, and NCCL
// without touching a device. They run vendor code, so call it in a separate process with a timeout.
// Thread: main.
#pragma once

#include <string>

#include "cli/doctor/finding.h"

namespace mobula::internal::cli::doctor {

struct GpuPaths {
  std::string proc = "/proc";
  std::string dev = "/dev";
};

Findings check_gpus(const GpuPaths& paths = {});

// Returns the version in /proc/driver/nvidia/version, such as "535.104.05", or an empty string.
std::string kernel_driver_version(const std::string& text);

}  // namespace mobula::internal::cli::doctor
