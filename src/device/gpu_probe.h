// Finds the machine's NVIDIA GPUs by the best source there is: NVML, else the driver's files under /proc,
// else the PCI bus. For the agent's start; any thread. Knows nothing of masks or requested counts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/accelerator_device.h"

namespace mobula::internal {

enum class GpuSource : unsigned char { none, nvml, driver_files, pci_bus };
std::string_view to_string(GpuSource source);

struct GpuFacts {
  GpuSource source = GpuSource::none;
  std::string driver_version{};
  std::vector<AcceleratorDevice> devices{};  // in PCI order, slices in place of their device
  std::vector<std::string> notes{};  // why better sources were passed over, for `status`
};

struct GpuPaths {
  std::string nvml_library = "libnvidia-ml.so.1";
  std::string proc = "/proc";
  std::string topology_xml{};  // see nvidia_pci_devices
};

GpuFacts probe_gpus(const GpuPaths& paths = {});

}  // namespace mobula::internal
