// Detection of AMD and Intel GPUs through the files of their drivers.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "device/cgroup.h"
#include "device/detection/detect_vendors.h"
#include "device/device_tree.h"

namespace mobula::internal {
namespace {

constexpr std::uint32_t amd_pci_vendor = 0x1002;
constexpr std::uint32_t intel_pci_vendor = 0x8086;
constexpr std::uint32_t display_class = 0x0300;
constexpr std::uint32_t other_display_class = 0x0380;  // without a connector: data center cards
constexpr std::uint64_t least_own_memory = std::uint64_t{2} << 30;
constexpr std::string_view intel_integrated = "0000:00:02.0";

struct PciName {
  std::uint32_t device;
  std::string_view type;
};

// From Ray, _private/accelerators/amd_gpu.py.
constexpr std::array<PciName, 16> amd_types{{{0x66a1, "AMD-Instinct-MI50"},
                                             {0x738c, "AMD-Instinct-MI100"},
                                             {0x7408, "AMD-Instinct-MI250X"},
                                             {0x740c, "AMD-Instinct-MI250X-MI250"},
                                             {0x740f, "AMD-Instinct-MI210"},
                                             {0x74a0, "AMD-Instinct-MI300A"},
                                             {0x74a1, "AMD-Instinct-MI300X-OAM"},
                                             {0x74a2, "AMD-Instinct-MI308X"},
                                             {0x74a5, "AMD-Instinct-MI325X-OAM"},
                                             {0x74a9, "AMD-Instinct-MI300X-HF"},
                                             {0x75a0, "AMD-Instinct-MI350X-OAM"},
                                             {0x75a3, "AMD-Instinct-MI355X-OAM"},
                                             {0x6798, "AMD-Radeon-R9-200-HD-7900"},
                                             {0x6799, "AMD-Radeon-HD-7900"},
                                             {0x679a, "AMD-Radeon-HD-7900"},
                                             {0x679b, "AMD-Radeon-HD-7900"}}};

// From the PCI ID repository (pci.ids), with Ray's spelling of the names.
constexpr std::array<PciName, 7> intel_types{{{0x0bd5, "Intel-GPU-Max-1550"},
                                              {0x0bd6, "Intel-GPU-Max-1550"},
                                              {0x0bd9, "Intel-GPU-Max-1100"},
                                              {0x0bda, "Intel-GPU-Max-1100"},
                                              {0x0bdb, "Intel-GPU-Max-1100"},
                                              {0x56c0, "Intel-GPU-Flex-170"},
                                              {0x56c1, "Intel-GPU-Flex-140"}}};

std::vector<std::string> type_of(std::span<const PciName> names, std::uint32_t device) {
  const auto at = std::ranges::find(names, device, &PciName::device);
  return at == names.end() ? std::vector<std::string>() : std::vector{std::string(at->type)};
}

// Memory of a KFD node, summed over its banks.
std::uint64_t kfd_memory(const std::string& node) {
  std::uint64_t bytes = 0;
  for (const auto bank : numbered_entries(node + "/mem_banks", "", true)) {
    const auto text = small_file(fmt::format("{}/mem_banks/{}/properties", node, bank));
    bytes += property_in(text.value_or(""), "size_in_bytes");
  }
  return bytes;
}

}  // namespace

Detected detect_amd(const DetectionPaths& paths) {
  Detected found;
  const std::string nodes = paths.sys + "/class/kfd/kfd/topology/nodes";
  std::size_t index = 0;  // HIP index; CPU nodes do not count
  for (const auto number : numbered_entries(nodes, "", true)) {
    const std::string node = fmt::format("{}/{}", nodes, number);
    const std::string text = small_file(node + "/properties").value_or("");
    if (property_in(text, "simd_count") == 0 || property_in(text, "vendor_id") != amd_pci_vendor) {
      continue;
    }
    AcceleratorDevice device{.id = std::to_string(index++)};
    device.memory_bytes = kfd_memory(node);
    const auto model = static_cast<std::uint32_t>(property_in(text, "device_id"));
    const auto location = property_in(text, "location_id");
    device.product = fmt::format("AMD {:#06x}", model);
    device.types = type_of(amd_types, model);
    device.pci_bus_id = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", property_in(text, "domain"),
                                    location >> 8 & 0xff, location >> 3 & 0x1f, location & 7);
    if (const auto unique = property_in(text, "unique_id"); unique != 0) {
      device.uuid = fmt::format("GPU-{:016x}", unique);
    }
    if (device.memory_bytes > 0 && device.memory_bytes < least_own_memory) {
      found.notes.push_back(
          fmt::format("{} at {} has {} MiB of its own: a display unit, not offered", device.product,
                      device.pci_bus_id, device.memory_bytes >> 20));
      continue;
    }
    found.devices.push_back(std::move(device));
  }
  return found;
}

Detected detect_intel(const DetectionPaths& paths) {
  Detected found;
  std::size_t index = 0;
  for (const PciFunction& each : pci_functions_of(paths.sys, intel_pci_vendor)) {
    if (each.device_class != display_class && each.device_class != other_display_class) continue;
    const std::string id = std::to_string(index++);
    if (each.bus_id == intel_integrated) {
      found.notes.push_back("the Intel GPU at " + each.bus_id +
                            " is the processor's own: not offered");
      continue;
    }
    found.devices.push_back({.product = fmt::format("Intel {:#06x}", each.device),
                             .pci_bus_id = each.bus_id,
                             .id = id,
                             .types = type_of(intel_types, each.device)});
  }
  return found;
}

}  // namespace mobula::internal
