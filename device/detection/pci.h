// PCI facts from hwloc: NVIDIA GPUs without a driver (the last resort of detection), distances
// between devices, and near CPUs and interfaces.
// Thread: any. Reads the topology on each call (tens of milliseconds).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/near_gpu.h"

namespace mobula::internal {

// PCI bus ids ("0000:3b:00.0"), in order, of NVIDIA devices of class 0x0300 or 0x0302.
// `topology_xml` is a file that hwloc exported (`lstopo x.xml`); empty: this machine.
Result<std::vector<std::string>> nvidia_pci_devices(const std::string& topology_xml = {});

// NUMA node number of each bus id. Devices that hwloc does not know, or that are equally close to
// several nodes, are omitted.
Result<std::map<std::string, std::int32_t>> numa_nodes_of(const std::vector<std::string>& bus_ids,
                                                          const std::string& topology_xml = {});

// CPUs and PCI network interfaces near these devices. Facts that hwloc does not know are omitted,
// so the result can be empty. If `topology_xml` is empty, hwloc's variable HWLOC_XMLFILE can name
// the topology of another machine.
Result<MachineLocality> locality_of(const std::vector<std::string>& bus_ids,
                                    const std::string& topology_xml = {});

}  // namespace mobula::internal
