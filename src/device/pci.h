// What hwloc says of PCI devices: which GPUs are plugged in, the last resort of detection, without a
// driver's word; which devices are close to each other, and what is close to them. Asks the operating system once per call
// (tens of milliseconds); any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/near_gpu.h"

namespace mobula::internal {

// The PCI bus ids ("0000:3b:00.0"), in order, of NVIDIA's devices of class 0x0300 or 0x0302.
// `topology_xml` is a file that hwloc exported (`lstopo x.xml`); empty: this machine.
Result<std::vector<std::string>> nvidia_pci_devices(const std::string& topology_xml = {});

// The NUMA node (its number in the operating system) that each of these bus ids is attached to. Those that
// hwloc does not know, or that are as close to several nodes, are left out.
Result<std::map<std::string, std::int32_t>> numa_nodes_of(const std::vector<std::string>& bus_ids,
                                                          const std::string& topology_xml = {});

// What lies near these devices: CPUs, and network interfaces that are PCI devices. What hwloc does not know is
// left out, so that a machine without such knowledge has none. Where `topology_xml` is empty, hwloc's own
// variable HWLOC_XMLFILE names another machine's file.
Result<MachineLocality> locality_of(const std::vector<std::string>& bus_ids, const std::string& topology_xml = {});

}  // namespace mobula::internal
