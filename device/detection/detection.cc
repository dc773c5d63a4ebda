#include "device/detection/detection.h"

#include <algorithm>
#include <array>

#include "device/detection/accelerator_names.h"
#include "device/detection/detect_vendors.h"
#include "device/detection/pci.h"

namespace mobula::internal {
namespace {

using Detect = Detected(const DetectionPaths&);

// Indexed by Vendor. The libraries of MetaX and Furiosa have no publicly documented interface.
constexpr std::array<Detect*, vendor_count> detections{
    detect_amd,         detect_intel,     detect_nvidia,     nullptr /* metax */,
    detect_biren,       detect_cambricon, detect_neuron,     detect_tpu,
    detect_gaudi,       detect_ascend,    detect_rebellions, nullptr /* furiosa */,
    detect_tenstorrent, detect_mobilint};

// The devices of one NUMA node form an island. A single device needs none.
void find_numa_islands(const std::string& topology_xml, Detected& found) {
  std::vector<std::string> bus_ids;
  for (const auto& device : found.devices) {
    if (!device.pci_bus_id.empty()) bus_ids.push_back(device.pci_bus_id);
  }
  if (bus_ids.size() < 2) return;
  const auto nodes = numa_nodes_of(bus_ids, topology_xml);
  if (!nodes) {
    found.notes.push_back("which devices are close to each other is not known: " +
                          nodes.error().text);
    return;
  }
  for (auto& device : found.devices) {
    const auto at = nodes->find(device.pci_bus_id);
    if (at != nodes->end()) device.island = at->second;
  }
}

// Linked devices are closer to each other than to the rest of their NUMA node. Each link group is
// an island, numbered after the NUMA nodes of other devices.
void find_linked_islands(Detected& found) {
  std::int32_t next = 0;
  for (const auto& device : found.devices) {
    if (device.link_group < 0) next = std::max(next, device.island + 1);
  }
  for (auto& device : found.devices) {
    if (device.link_group >= 0) device.island = next + device.link_group;
  }
}

}  // namespace

Detected detect_devices(Vendor vendor, const DetectionPaths& paths) {
  Detect* const detect = detections[static_cast<std::size_t>(vendor)];
  if (detect == nullptr) return {};
  Detected found = detect(paths);
  find_numa_islands(paths.topology_xml, found);
  find_linked_islands(found);
  return found;
}

Detected detect_nvidia(const DetectionPaths& paths) {
  GpuFacts facts = probe_gpus(paths.nvidia);
  Detected found;
  found.driver = facts.driver_version;
  found.devices = std::move(facts.devices);
  // Without devices, a missing library is not worth a note.
  if (!found.devices.empty()) found.notes = std::move(facts.notes);
  return found;
}

Detected detect_neuron(const DetectionPaths& paths) {
  Detected found;
  const auto cores = probe_neuron_cores(paths.neuron);
  if (!cores) {
    found.notes.push_back(cores.error().text);
    return found;
  }
  for (unsigned i = 0; i < *cores; ++i) {
    found.devices.push_back({.id = std::to_string(i), .types = {std::string(neuron_core_type)}});
  }
  return found;
}

}  // namespace mobula::internal
