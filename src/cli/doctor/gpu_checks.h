// NVIDIA's driver and the libraries that speak to it, as far as they fit each other. Opens NVML, the CUDA driver
// and NCCL, none of which touches a device; they run code of theirs, so ask in a process of its own, with a limit.
#pragma once

#include <string>

#include "cli/doctor/finding.h"

namespace mobula::internal::cli::doctor {

struct GpuPaths {
  std::string proc = "/proc";
  std::string dev = "/dev";
};

Findings check_gpus(const GpuPaths& paths = {});

// Of /proc/driver/nvidia/version: "535.104.05"; empty where there is none.
std::string kernel_driver_version(const std::string& text);

}  // namespace mobula::internal::cli::doctor
