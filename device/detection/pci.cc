#include "device/detection/pci.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <hwloc.h>

namespace mobula::internal {
namespace {

constexpr unsigned short nvidia_vendor = 0x10de;
constexpr unsigned short display_controller = 0x0300;  // VGA-compatible
constexpr unsigned short compute_controller = 0x0302;  // 3D, without a display

// Optional hwloc components that must not run. They call vendor libraries, which creates contexts
// on devices, or connect to a display. PCI devices are read from sysfs, because the component that
// uses libpciaccess leaks memory.
constexpr const char* unwanted_components[] = {"cuda",   "nvml", "rsmi", "levelzero",
                                               "opencl", "gl",   "pci"};

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, DestroyTopology>;

Result<Topology> load_topology(const std::string& topology_xml) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    return failure(ErrorCode::unavailable, "hwloc could not begin to read this machine's topology");
  }
  Topology topology(raw);
  if (!topology_xml.empty() && hwloc_topology_set_xml(raw, topology_xml.c_str()) != 0) {
    return failure(ErrorCode::not_found, "hwloc could not read " + topology_xml);
  }
  for (const char* component : unwanted_components) {
    // Fails if the component is not installed.
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
  // I/O objects are excluded by default; the filter must precede the load.
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_load(raw) != 0) {
    return failure(ErrorCode::unavailable, "hwloc could not read this machine's topology");
  }
  return topology;
}

CpuList cpus_in(hwloc_const_bitmap_t set) {
  CpuList cpus;
  if (set == nullptr || hwloc_bitmap_weight(set) < 0) return cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) {
    cpus.push_back(static_cast<unsigned>(cpu));
  }
  return cpus;
}

bool is_pci_bridge(hwloc_obj_t at) {
  return at->type == HWLOC_OBJ_BRIDGE && at->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
}

Nearness nearness_of(hwloc_topology_t topology, hwloc_obj_t interface, hwloc_obj_t device) {
  for (hwloc_obj_t at = interface->parent; at != nullptr && at->type == HWLOC_OBJ_BRIDGE;
       at = at->parent) {
    for (hwloc_obj_t other = device->parent; other != nullptr && other->type == HWLOC_OBJ_BRIDGE;
         other = other->parent) {
      if (other == at && is_pci_bridge(at)) return Nearness::same_switch;
    }
  }
  const auto a = hwloc_get_non_io_ancestor_obj(topology, interface),
             b = hwloc_get_non_io_ancestor_obj(topology, device);
  const bool same = a != nullptr && b != nullptr && a->cpuset != nullptr && b->cpuset != nullptr &&
                    hwloc_bitmap_isequal(a->cpuset, b->cpuset) != 0;
  return same ? Nearness::same_cpus : Nearness::elsewhere;
}

}  // namespace

Result<std::vector<std::string>> nvidia_pci_devices(const std::string& topology_xml) {
  const auto topology = load_topology(topology_xml);
  if (!topology) return topology.error();
  hwloc_topology_t raw = topology->get();
  std::vector<std::string> found;
  for (hwloc_obj_t at = hwloc_get_next_pcidev(raw, nullptr); at != nullptr;
       at = hwloc_get_next_pcidev(raw, at)) {
    const auto& pci = at->attr->pcidev;
    const bool gpu = pci.class_id == display_controller || pci.class_id == compute_controller;
    if (pci.vendor_id != nvidia_vendor || !gpu) continue;
    found.push_back(fmt::format("{:04x}:{:02x}:{:02x}.{:x}", static_cast<unsigned>(pci.domain),
                                static_cast<unsigned>(pci.bus), static_cast<unsigned>(pci.dev),
                                static_cast<unsigned>(pci.func)));
  }
  std::ranges::sort(found);
  return found;
}

Result<std::map<std::string, std::int32_t>> numa_nodes_of(const std::vector<std::string>& bus_ids,
                                                          const std::string& topology_xml) {
  const auto topology = load_topology(topology_xml);
  if (!topology) return topology.error();
  std::map<std::string, std::int32_t> found;
  for (const std::string& bus_id : bus_ids) {
    hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology->get(), bus_id.c_str());
    if (device == nullptr) continue;
    hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology->get(), device);
    if (near == nullptr || near->nodeset == nullptr) continue;
    if (hwloc_bitmap_weight(near->nodeset) != 1) continue;
    found.emplace(bus_id, hwloc_bitmap_first(near->nodeset));
  }
  return found;
}

Result<MachineLocality> locality_of(const std::vector<std::string>& bus_ids,
                                    const std::string& topology_xml) {
  const auto loaded = load_topology(topology_xml);
  if (!loaded) return loaded.error();
  hwloc_topology_t topology = loaded->get();
  MachineLocality found;
  std::map<std::string, hwloc_obj_t> devices;
  for (const std::string& bus_id : bus_ids) {
    hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology, bus_id.c_str());
    if (device == nullptr) continue;
    devices.emplace(bus_id, device);
    hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, device);
    if (near != nullptr && near->cpuset != nullptr)
      found.cpus_of.emplace(bus_id, cpus_in(near->cpuset));
  }
  for (hwloc_obj_t at = hwloc_get_next_osdev(topology, nullptr); at != nullptr;
       at = hwloc_get_next_osdev(topology, at)) {
    if (at->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK || at->name == nullptr) continue;
    if (at->parent == nullptr || at->parent->type != HWLOC_OBJ_PCI_DEVICE) continue;
    auto& of_interface = found.interfaces[at->name];
    for (const auto& [bus_id, device] : devices) {
      of_interface.emplace(bus_id, nearness_of(topology, at->parent, device));
    }
  }
  return found;
}

}  // namespace mobula::internal
