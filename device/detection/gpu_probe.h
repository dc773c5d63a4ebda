// Finds the NVIDIA GPUs of the machine through the best available source: NVML, the driver's files
// in /proc, or the PCI bus.
// Thread: any. Called at agent start.
// Not: masks and requested amounts.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "device/detection/accelerator_device.h"
#include "device/detection/nvml.h"

namespace mobula::internal {

enum class GpuSource : unsigned char { none, nvml, driver_files, pci_bus };
std::string_view to_string(GpuSource source);

struct GpuFacts {
  GpuSource source = GpuSource::none;
  std::string driver_version{};
  std::vector<AcceleratorDevice> devices{};  // in PCI order, slices in place of their device
  std::vector<std::string> notes{};          // reasons against better sources, for `status`
};

struct GpuPaths {
  std::string nvml_library = Nvml::library_name();
  std::string proc = "/proc";
  std::string topology_xml{};  // see nvidia_pci_devices
};

GpuFacts probe_gpus(const GpuPaths& paths = {});

// By UUID: the other devices of the machine whose memory this device can access. Queried from NVML,
// which needs no context. A MIG slice has no peers.
using GpuPeers = std::map<std::string, std::vector<std::string>>;
GpuPeers probe_gpu_peers(const std::string& nvml_library = Nvml::library_name());

}  // namespace mobula::internal
