#include "device/pci.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <hwloc.h>

namespace mobula::internal {
namespace {

constexpr unsigned short nvidia_vendor = 0x10de;
constexpr unsigned short display_controller = 0x0300;  // VGA-compatible
constexpr unsigned short compute_controller = 0x0302;  // 3D, without a display

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, DestroyTopology>;

}  // namespace

Result<std::vector<std::string>> nvidia_pci_devices(const std::string& topology_xml) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    return failure(ErrorCode::unavailable, "hwloc could not begin to read this machine's topology");
  }
  const Topology topology(raw);
  if (!topology_xml.empty() && hwloc_topology_set_xml(raw, topology_xml.c_str()) != 0) {
    return failure(ErrorCode::not_found, "hwloc could not read " + topology_xml);
  }
  // I/O objects are left out unless asked for, before the load.
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_load(raw) != 0) {
    return failure(ErrorCode::unavailable, "hwloc could not read this machine's topology");
  }
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

}  // namespace mobula::internal
