// Finds the machine's NVIDIA GPUs by the best source there is: NVML, else the driver's files under /proc,
// else the PCI bus. For the agent's start; any thread. Knows nothing of masks or requested counts.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "device/accelerator_device.h"
#include "device/nvml.h"

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
  std::string nvml_library = Nvml::library_name();
  std::string proc = "/proc";
  std::string topology_xml{};  // see nvidia_pci_devices
};

GpuFacts probe_gpus(const GpuPaths& paths = {});

// By UUID, which other devices of the machine's it reaches: their memory may be read by its kernels and copies.
// Asked of NVML, which needs no context. A slice reaches none.
using GpuPeers = std::map<std::string, std::vector<std::string>>;
GpuPeers probe_gpu_peers(const std::string& nvml_library = Nvml::library_name());

}  // namespace mobula::internal
