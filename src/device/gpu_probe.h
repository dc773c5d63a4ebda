// Finds the machine's GPUs by the best source there is: NVML, else the driver's files under /proc,
// else the PCI bus. For the agent's start; any thread. Knows nothing of masks or requested counts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mobula::internal {

enum class GpuSource : unsigned char { none, nvml, driver_files, pci_bus };
std::string_view to_string(GpuSource source);

// A GPU, or a MIG slice of one. Empty or 0: the source does not say.
struct GpuDevice {
  std::string product{};
  std::string uuid{};  // "GPU-…"; of a slice "MIG-…"
  std::string pci_bus_id{};
  std::uint64_t memory_bytes = 0;
  bool slice = false;

  friend bool operator==(const GpuDevice&, const GpuDevice&) = default;
};

struct GpuFacts {
  GpuSource source = GpuSource::none;
  std::string driver_version{};
  std::vector<GpuDevice> devices{};  // in PCI order, slices in place of their device
  std::vector<std::string> notes{};  // why better sources were passed over, for `status`
};

struct GpuPaths {
  std::string nvml_library = "libnvidia-ml.so.1";
  std::string proc = "/proc";
  std::string topology_xml{};  // see nvidia_pci_devices
};

GpuFacts probe_gpus(const GpuPaths& paths = {});

}  // namespace mobula::internal
